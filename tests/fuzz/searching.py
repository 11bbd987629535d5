"""One process of the search: rounds of fresh cases until the time is over, each difference shrunk and saved."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from engine.language.parser import parse
from engine.language.printer import print_query
from tests.conformance.ways import WAYS
from tests.engine.constructs import constructs_of
from tests.examples import each_drawn_anew
from tests.fuzz.budgets import BUDGETED, Budgeted, difference
from tests.fuzz.case import FuzzCase
from tests.fuzz.checking import Finding, Verdict, check
from tests.fuzz.drawing import FIELDS, fuzz_cases
from tests.fuzz.hostile import HOSTILE, Cost, Hostile, cost_of, over
from tests.fuzz.inputs import PROBES
from tests.fuzz.shrinking import shrunk

CASES_PER_ROUND = 20
INPUTS_PER_ROUND = 100
HOSTILE_PER_ROUND = 6
SHRINK_SECONDS = 40.0
MOST_ALIKE = 2
"""Findings of one kind in one field that are shrunk; further ones are counted."""

_QUIET = settings(
    deadline=None, database=None, derandomize=False, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@dataclass
class Tally:
    """What was searched: cases by field and construct, refusals by way and reason, findings."""

    cases: Counter[str] = field(default_factory=Counter)
    with_rows: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    n_compared: int = 0
    n_without_oracle: int = 0
    n_no_query: int = 0

    def add(self, name: str, case: FuzzCase, verdict: Verdict) -> None:
        """Count a case of a field."""
        if not verdict.is_query:
            self.n_no_query += 1
            return
        self.cases[name] += 1
        self.n_compared += verdict.n_compared
        self.n_without_oracle += not verdict.has_expected
        self.refused.update({f"{way}: {reason}" for way, reason in verdict.refused})
        if verdict.n_rows:
            self.with_rows[name] += 1
            self.constructs.update({c for text in case.setting.texts.values() for c in constructs_of(text)})

    def merge(self, other: Tally) -> None:
        """Add what another process has searched."""
        for mine, its in (
            (self.cases, other.cases),
            (self.with_rows, other.with_rows),
            (self.constructs, other.constructs),
            (self.refused, other.refused),
        ):
            mine.update(its)
        self.n_compared += other.n_compared
        self.n_without_oracle += other.n_without_oracle
        self.n_no_query += other.n_no_query


@dataclass(frozen=True)
class Found:
    """A finding, after so many seconds of the search, saved in `folder`."""

    finding: Finding
    field: str
    seconds: float
    folder: Path
    text: str


@dataclass(frozen=True)
class Order:
    """What one process is to do. `without`: constructs whose queries are left out; `folder`: where findings go; the
    case at hand is in `current`, so that it is known when the process does not come back from it."""

    seed: int
    seconds: float
    fields: Sequence[str]
    without: Collection[str]
    folder: Path
    current: Path


class Search:
    """State of one process."""

    def __init__(self, order: Order, tell: Callable[[Found | Tally], None]) -> None:
        self._order = order
        self._tell = tell
        self._started = time.monotonic()
        self._alike: Counter[tuple[str, tuple[str, str]]] = Counter()
        self._tally = Tally()

    @property
    def _is_over(self) -> bool:
        return time.monotonic() - self._started >= self._order.seconds

    def run(self) -> None:
        """Rounds until the time is over."""
        number = 0
        while not self._is_over:
            name = self._order.fields[number % len(self._order.fields)]
            drawn_from = self._order.seed * 1_000_003 + number
            if name in PROBES:
                self.probe(name, drawn_from)
            elif name in BUDGETED:
                self.budgets(name, drawn_from)
            elif name in HOSTILE:
                self.burden(name, drawn_from)
            else:
                self.round(name, drawn_from)
            self._tell(self._tally)
            self._tally = Tally()
            number += 1

    def round(self, name: str, number: int) -> None:
        """A few cases of a field, drawn from this number."""

        @seed(number)
        @settings(_QUIET, max_examples=CASES_PER_ROUND)
        @given(fuzz_cases(FIELDS[name]))
        def draw(case: FuzzCase) -> None:
            if not self._is_over:
                self.look_at(name, case)

        with each_drawn_anew():
            draw()

    def probe(self, name: str, number: int) -> None:
        """A few inputs of a kind, drawn from this number; what they raise is shrunk by Hypothesis."""

        @seed(number)
        @settings(_QUIET, max_examples=INPUTS_PER_ROUND, phases=[Phase.generate, Phase.shrink])
        @given(PROBES[name].drawn)
        def look(drawn: Any) -> None:
            if not self._is_over:
                self._tally.cases[name] += 1
                PROBES[name].look(drawn)

        try:
            with each_drawn_anew():
                look()
        except Exception:  # noqa: BLE001  # told as a finding
            emitted = traceback.format_exc()
            place = name, (name, emitted.strip().rsplit("\n", 1)[-1])
            self._alike[place] += 1
            if self._alike[place] <= MOST_ALIKE:
                folder = self._order.folder / f"found-{name.replace(' ', '-')}-{number}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "finding.txt").write_text(emitted, encoding="utf-8", errors="backslashreplace")
                after = time.monotonic() - self._started
                self._tell(Found(Finding(name, "an answer or an error", emitted), name, after, folder, ""))

    def budgets(self, name: str, number: int) -> None:
        """A few cases with small budgets, drawn from this number."""

        @seed(number)
        @settings(_QUIET, max_examples=CASES_PER_ROUND)
        @given(BUDGETED[name])
        def draw(budgeted: Budgeted) -> None:
            if not self._is_over:
                self._evaluate(name, budgeted)

        with each_drawn_anew():
            draw()

    def _evaluate(self, name: str, budgeted: Budgeted) -> None:
        budgeted.save(self._order.current)
        self._tally.cases[name] += 1
        finding = difference(budgeted)
        kind = name, finding.kind if finding else ("", "")
        if finding is None:
            return
        self._alike[kind] += 1
        if self._alike[kind] <= MOST_ALIKE:
            after = time.monotonic() - self._started

            def is_shown(case: FuzzCase) -> bool:
                found = difference(replace(budgeted, case=case))
                return found is not None and found.kind == finding.kind

            budgeted = replace(budgeted, case=shrunk(budgeted.case, is_shown, SHRINK_SECONDS))
            self._keep(difference(budgeted) or finding, name, after, budgeted)

    def burden(self, name: str, number: int) -> None:
        """A few hostile cases, drawn from this number."""

        @seed(number)
        @settings(_QUIET, max_examples=HOSTILE_PER_ROUND)
        @given(HOSTILE[name])
        def draw(hostile: Hostile) -> None:
            if not self._is_over:
                self._measure(name, hostile)

        with each_drawn_anew():
            draw()

    def _measure(self, name: str, hostile: Hostile) -> None:
        hostile.save(self._order.current)
        cost = cost_of(hostile)
        if cost is None:
            self._tally.n_no_query += 1
            return
        self._tally.cases[name] += 1
        self._tally.with_rows[name] += isinstance(cost, Cost) and cost.n_rows > 0
        limit = over(cost) and over(cost_of(hostile))  # again: the machine may have been at something else
        kind = name, (name, limit or "")
        if limit is None:
            return
        self._alike[kind] += 1
        if self._alike[kind] <= MOST_ALIKE:
            after = time.monotonic() - self._started
            hostile = hostile.smaller(SHRINK_SECONDS)
            self._keep(Finding(name, "the goal", f"{limit}: {cost_of(hostile)}"), name, after, hostile)

    def look_at(self, name: str, case: FuzzCase) -> None:
        """Check a case, and one with more matches where it has none."""
        if any(c in self._order.without for text in case.setting.texts.values() for c in constructs_of(text)):
            return
        verdict = self._checked(name, case)
        if verdict.is_query and not verdict.n_rows and not verdict.refused and verdict.finding is None:
            case = relaxed(case, 2)
            if not self._checked(name, case).n_rows:
                self._checked(name, relaxed(case, 8))

    def _checked(self, name: str, case: FuzzCase) -> Verdict:
        case.save(self._order.current)
        verdict = check(case)
        self._tally.add(name, case, verdict)
        if verdict.finding is not None:
            self._report(name, case, verdict.finding)
        return verdict

    def _report(self, name: str, case: FuzzCase, finding: Finding) -> None:
        kind = name, finding.kind
        self._alike[kind] += 1
        if self._alike[kind] > MOST_ALIKE:
            return
        after = time.monotonic() - self._started
        case = shrunk(case, lambda other: self._is_shown(other, finding), SHRINK_SECONDS)
        finding = check(case).finding or finding
        self._keep(finding, name, after, case)

    def _keep(self, finding: Finding, name: str, after: float, case: FuzzCase | Budgeted | Hostile) -> None:
        """Save the case and tell of it."""
        digest = hashlib.blake2b(str(case).encode(), digest_size=4).hexdigest()
        folder = self._order.folder / f"found-{digest}"
        case.save(folder)
        (folder / "finding.txt").write_text(f"{finding.way} against {finding.against}\n{finding.message}\n\n{case}\n")
        self._tell(Found(finding, name, after, folder, str(case)))

    def _is_shown(self, case: FuzzCase, finding: Finding) -> bool:
        case.save(self._order.current)
        ways = [way for way in WAYS if way.name == finding.way]
        found = check(case, ways).finding
        return found is not None and found.kind == finding.kind


def relaxed(case: FuzzCase, divisor: int) -> FuzzCase:
    """The case with a part of the predicates of its queries, without HAVING, in longer windows."""
    texts: Mapping[str, str] = {
        name: print_query(
            replace(
                query,
                predicates=query.predicates[: len(query.predicates) // divisor],
                having=None,
                within_ms=query.within_ms * 2 if isinstance(query.within_ms, int) else query.within_ms,
            )
        )
        for name, query in ((name, parse(text)) for name, text in case.setting.texts.items())
    }
    return replace(case, setting=replace(case.setting, texts=texts, parameters={}))


__all__ = ["Found", "Order", "Search", "Tally", "relaxed"]
