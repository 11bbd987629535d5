"""One case through all ways: against the oracle where it comes to an end, and against each other."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from engine import CompiledQuery, MatchRow, ReferenceRow, ResolvedQuery, match_id, reference_cascade
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from tests.conformance.comparison import check_order, check_rows
from tests.conformance.ways import AUTOMATON, BEYOND_MS, COMPILED, CUT, WAYS, Setting, Way, rows_by, rows_of
from tests.engine.strategies import SCHEMA, Delivery
from tests.fuzz.case import FuzzCase

ORACLE = "oracle"
ORACLE_SECONDS = 1.0
"""After so long the oracle is left out: what it lists grows exponentially."""
WAY_SECONDS = 20.0
"""After so long, twice, a way is a finding: streams are small. (The first time it may compile a baseline's kernels.)"""

_MOST_SHOWN = 12
_COLLECTORS_CALLBACK = "gc_callback"
"""Hypothesis's, which nothing that is raised in it leaves."""


class TooLongError(Exception):
    """A time limit has passed."""


@dataclass(frozen=True)
class Finding:
    """`way` differs from `against`; both are names. `message`: how, for people."""

    way: str
    against: str
    message: str

    @property
    def kind(self) -> tuple[str, str]:
        """What a smaller case must still show."""
        return self.way, self.against


@dataclass
class Verdict:
    """What became of a case: `is_query` False for texts that say no query, `n_rows` of the first that counted them."""

    is_query: bool = True
    n_rows: int = 0
    n_compared: int = 0
    has_expected: bool = False
    refused: list[tuple[str, str]] = field(default_factory=list)
    finding: Finding | None = None


@dataclass(frozen=True)
class Plans:
    """The queries of a case, planned once for all ways."""

    compiled: list[CompiledQuery]
    automata: list[CompiledQuery]

    @classmethod
    def of(cls, case: FuzzCase) -> Plans:
        """Raises QueryError."""
        return cls(case.setting.compiled(), case.setting.compiled(as_automata=True))

    def ways(self) -> Sequence[Way]:
        """Without the baselines where these have no chance."""
        queries = [query.resolved.query for query in self.compiled]
        has_baselines = all(
            q.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH and q.output is ast.Output.ALL for q in queries
        )
        return [way for way in WAYS if has_baselines or way.baseline is None]


def check(case: FuzzCase, ways: Sequence[Way] | None = None) -> Verdict:
    """Evaluate and compare; the first difference is the verdict's finding.

    `ways`: those beside the compiled one, None for all, of which most are left out where there are no rows to lose.
    """
    verdict = Verdict()
    try:
        plans = Plans.of(case)
        _check_printed(case)
    except UnsupportedQueryError as error:
        verdict.refused.append((COMPILED.name, _reason(error)))
        return verdict
    except QueryError:
        verdict.is_query = False
        return verdict
    except Exception:  # noqa: BLE001  # told as a finding
        verdict.finding = Finding(COMPILED.name, "planned", traceback.format_exc())
        return verdict
    expected = _by_oracle(case, plans.compiled, verdict)
    base = _found_by(COMPILED, case, plans, verdict, expected, None)
    if verdict.finding is not None:
        return verdict
    against = base if expected is None else expected
    verdict.has_expected = expected is not None
    verdict.n_rows = len(against or ())
    if ways is None:
        ways = plans.ways() if verdict.n_rows else (CUT, AUTOMATON)
    for way in ways:
        found = _found_by(way, case, plans, verdict, expected, base)
        if verdict.finding is not None:
            break
        base = found if against is None and base is None else base
    return verdict


def _check_printed(case: FuzzCase) -> None:
    for text in case.setting.texts.values():
        parsed = parse(text)
        assert parse(print_query(parsed)) == parsed, f"printed as\n{print_query(parsed)}"


def _by_oracle(case: FuzzCase, queries: Sequence[CompiledQuery], verdict: Verdict) -> list[Any] | None:
    by_name = {query.name: query for query in queries}

    def identify(query: ResolvedQuery, row: ReferenceRow) -> str:
        return match_id(query.name, by_name[query.name].hash, row.key, row.window, row.bindings)

    try:
        with at_most(ORACLE_SECONDS):
            rows = reference_cascade([query.resolved for query in queries], case.stream, identify=identify)
        return [row for query in queries if not query.is_silent for row in rows[query.name]]
    except TooLongError:
        verdict.refused.append((ORACLE, "too long"))
    except UnsupportedQueryError as error:
        verdict.refused.append((ORACLE, _reason(error)))
    except Exception:  # noqa: BLE001  # told as a finding
        verdict.finding = Finding(ORACLE, "rows", traceback.format_exc())
    return None


def _found_by(
    way: Way,
    case: FuzzCase,
    plans: Plans,
    verdict: Verdict,
    expected: Sequence[Any] | None,
    base: Sequence[Any] | None,
) -> list[MatchRow] | None:
    """The rows of a way that did not refuse; a difference becomes the verdict's finding."""
    against = expected if expected is not None else base
    name = ORACLE if expected is not None else COMPILED.name
    try:
        queries = plans.automata if way.as_automata else plans.compiled
        found = _in_time(lambda: rows_by(way, queries, case.parts, case.restarts))
        if any(row.capped or not row.count_exact for row in found if not _has_limit(queries, row.query)):
            raise UnsupportedQueryError("a limit stopped the listing")
    except UnsupportedQueryError as error:
        verdict.refused.append((way.family, _reason(error)))
        return None
    except TooLongError:
        verdict.finding = Finding(way.name, "time", f"not done after {WAY_SECONDS} s")
        return None
    except Exception:  # noqa: BLE001  # told as a finding
        verdict.finding = Finding(way.name, "rows", traceback.format_exc())
        return None
    if against is not None:
        verdict.n_compared += 1
        difference = compared(queries, case, found, against)
        if difference is not None:
            verdict.finding = Finding(way.name, name, difference)
    return found


def warm_ways() -> None:
    """Let every way compile what it needs: a compiler that a time limit interrupts may leave a process damaged."""
    text = "PATTERN SEQ(A v0, B+ v1[], A v2) WHERE skip_till_any_match WITHIN 20 ms"
    compiled = Setting({"q1": text}, {})
    plans = Plans(compiled.compiled(), compiled.compiled(as_automata=True))
    for width_ms in (1, 3):
        rows = [
            {"event_id": f"e{t}", "type": name, "t_lo_ms": 2 * t, "t_hi_ms": 2 * t + width_ms - 1, "source_seq": t}
            for t, name in enumerate("ABBA")
        ]
        whole = [Delivery(EventBatch.from_rows(rows, SCHEMA), BEYOND_MS)]
        for way in (COMPILED, *WAYS):
            with suppress(UnsupportedQueryError):
                rows_by(way, plans.automata if way.as_automata else plans.compiled, whole)


def _in_time(evaluate: Callable[[], list[MatchRow]]) -> list[MatchRow]:
    try:
        with at_most(WAY_SECONDS):
            return evaluate()
    except TooLongError:
        with at_most(WAY_SECONDS):
            return evaluate()


def compared(
    queries: Sequence[CompiledQuery], case: FuzzCase, found: Sequence[Any], against: Sequence[Any]
) -> str | None:
    """How the rows differ from those that are expected; None where they do not."""
    for query in queries:
        if query.is_silent:
            continue
        own, other = rows_of(found, query.name), rows_of(against, query.name)
        try:
            check_rows(query.resolved.query.output, own, other, case.stream)
            check_order(query.resolved.query, own, other, case.stream)
        except AssertionError as error:
            return f"{query.name}: {error}\nfound:\n{shown(own)}\nexpected:\n{shown(other)}"
    return None


def shown(rows: Sequence[Any]) -> str:
    """Rows for people, the first of them."""
    lines = [
        f"  {dict(row.bindings)} confidence {float(row.confidence):.15g} count {row.count} "
        + " ".join(
            f"{name} {value}"
            for name, value in (("values", dict(row.values)), ("window", row.window), ("candidates", row.candidates))
            if value
        )
        + (" capped" if row.capped else "")
        for row in rows[:_MOST_SHOWN]
    ]
    return "\n".join([*lines, f"  ({len(rows)} rows)"])


def _has_limit(queries: Sequence[CompiledQuery], name: str) -> bool:
    by_name: Mapping[str, CompiledQuery] = {query.name: query for query in queries}
    return by_name[name].resolved.query.limit is not None


def _reason(error: QueryError) -> str:
    return error.message.split(":")[0].split(";")[0]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLongError in the block after so much processor time; kernels are not interrupted."""

    def stop(_: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code.co_name != _COLLECTORS_CALLBACK:
            raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)  # again: where it may be swallowed it is not raised
    try:
        yield
    except Exception as error:
        if not isinstance(error, TooLongError) and any(isinstance(one, TooLongError) for one in _behind(error)):
            raise TooLongError from error  # raised in what C code had called
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """What it came of."""
    found = error.__cause__ or error.__context__
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


__all__ = ["ORACLE", "Finding", "Verdict", "at_most", "check", "compared", "shown", "warm_ways"]
