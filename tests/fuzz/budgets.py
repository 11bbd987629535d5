"""Cases whose searches are stopped: what is left out is the same for every division of the stream, and is told.

A work budget of a few steps stands for streams that are long, and a brake that is on in every step for what takes very
long; what that one leaves out need not be the same for every division. Rows that say that they are whole are those of
the search without bounds; where any row is missing, or says less, some row or the query's metrics say so.
"""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import assume
from hypothesis import strategies as st

from engine import Limits, MatchRow
from engine.errors import QueryError, UnsupportedQueryError
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.matching.brake import Brake
from tests.conformance.ways import AUTOMATON, AUTOMATON_CUT, COMPILED, CUT, Outcome, Way, outcome_by
from tests.fuzz.case import FuzzCase, load
from tests.fuzz.checking import Finding, Plans, shown
from tests.fuzz.drawing import FIELDS, fuzz_cases

_PAIRS = ((COMPILED, CUT), (AUTOMATON, AUTOMATON_CUT))
_DIGITS = 9
_BRAKED = replace(COMPILED, name=f"{COMPILED.name}, braked")
_FILE = "budget.json"


@dataclass(frozen=True)
class Budgeted:
    """A case, and the work budget that it is evaluated with."""

    case: FuzzCase
    work_budget: int

    def save(self, folder: Path) -> None:
        """Write the case and the budget."""
        self.case.save(folder)
        (folder / _FILE).write_text(json.dumps({"work_budget": self.work_budget}) + "\n", encoding="utf-8")

    @property
    def limits(self) -> Limits:
        """As an engine takes them."""
        return Limits(work_budget=self.work_budget)

    def __str__(self) -> str:
        return f"{self.case}\nwork budget {self.work_budget}"


class Pulled(Brake):
    """A brake that is on in every step."""

    _is_pulled = False

    @contextmanager
    def step(self, n_events: int, n_kept: int) -> Iterator[None]:
        """Without any time."""
        del n_events, n_kept
        if self._is_pulled:
            yield
            return
        self._is_pulled = True
        self.empty()
        yield
        self.release()
        self._is_pulled = False


def load_budgeted(folder: Path) -> Budgeted | None:
    """What `Budgeted.save` wrote; None for a case of another kind."""
    if not (folder / _FILE).exists():
        return None
    emitted = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    return Budgeted(load(folder), emitted["work_budget"])


@st.composite
def budgeted_cases(draw: st.DrawFn, field: str) -> Budgeted:
    """A case of a field, and a budget that is spent soon."""
    case = draw(fuzz_cases(FIELDS[field]))
    # LIMIT says that there are more where that is known when the row is told, which depends on the division.
    texts = {name: print_query(replace(parse(text), limit=None)) for name, text in case.setting.texts.items()}
    case = replace(case, setting=replace(case.setting, texts=texts))
    assume(all(map(is_promised, texts.values())))
    return Budgeted(case, draw(st.sampled_from((1, 2, 5, 12, 30, 80, 300))))


def difference(budgeted: Budgeted) -> Finding | None:
    """What is wrong; None where nothing is, or where the text says no query."""
    case = budgeted.case
    try:
        plans = Plans.of(case)
    except QueryError:
        return None
    for whole, cut in _PAIRS:
        queries = plans.automata if whole.as_automata else plans.compiled
        try:
            unbounded = outcome_by(whole, queries, case.parts)
            if unbounded.is_unfinished or unbounded.has_rejected:
                continue
            found = {way: outcome_by(way, queries, case.parts, case.restarts, budgeted.limits) for way in (whole, cut)}
            braked = outcome_by(whole, queries, case.parts, (), Limits(brake=Pulled()))
        except UnsupportedQueryError:
            continue
        except Exception:  # noqa: BLE001  # told as a finding
            return Finding(f"{cut.name}, budget", "rows", traceback.format_exc())
        forms = {query.name: query.resolved.query for query in queries}
        # A partition is shown what came before it was known, which the step pays for in which it becomes known.
        has_partial_keys = any(branch.has_partial_keys for query in queries for branch in query.branches)
        # Matches of some branches wait for a window: the form pays for them in another step than for the others.
        is_mixed = any(len({branch.is_trailing for branch in query.branches}) > 1 for query in queries)
        finding = (
            (
                None
                if has_partial_keys or is_mixed
                else _compared(found, whole, cut, is_top=any(q.top_k is not None for q in forms.values()))
            )
            or _retired(found[whole], unbounded, whole, forms)
            or _retired(braked, unbounded, _BRAKED, forms)
        )
        if finding is not None:
            return finding
    return None


def _compared(found: Mapping[Way, Outcome], whole: Way, cut: Way, *, is_top: bool) -> Finding | None:
    # A step looks no further than the rows of TOP that it finds first; one search more may be stopped in the next step,
    # of which its rows tell.
    said = _said_but_for_more if is_top else _said
    one, other = (Counter(map(said, found[way].rows)) for way in (whole, cut))
    if one == other and (is_top or _tells(found[whole]) == _tells(found[cut])):
        return None
    message = f"found:\n{_shown(found[cut])}\nin one step:\n{_shown(found[whole])}"
    return Finding(f"{cut.name}, budget", whole.name, message)


def _retired(found: Outcome, unbounded: Outcome, way: Way, forms: Mapping[str, ast.Query]) -> Finding | None:
    """Against the search without bounds."""
    known = {_match(row) for row in unbounded.rows}
    missing = Counter(map(_said, unbounded.rows)) - Counter(map(_said, found.rows))
    invented = [row for row in found.rows if _stands_for_one(forms[row.query]) and _match(row) not in known]
    if invented or (missing and not _tells(found)):
        what = "a row that is none" if invented else "missing, and not told"
        message = f"{what}\nfound:\n{_shown(found)}\nwithout bounds:\n{_shown(unbounded)}"
        return Finding(f"{way.name}, budget", "unbounded", message)
    return None


def _tells(outcome: Outcome) -> bool:
    return outcome.is_unfinished or any(row.capped or not row.count_exact for row in outcome.rows)


def _stands_for_one(query: ast.Query) -> bool:
    """Whether a row is one match: other forms choose, or sum up, so that one may differ when another is missing."""
    return query.output is ast.Output.ALL and not query.select_first and not query.consume


def is_promised(text: str) -> bool:
    """Whether what is left out of a query over precise events is the same for every division (`engine.Limits`)."""
    query = parse(text)
    last = query.pattern.parts[-1] if isinstance(query.pattern, ast.Sequence) else query.pattern
    if query.output in (ast.Output.COUNT, ast.Output.COLLAPSED) and isinstance(last, ast.Negation):
        return False
    return query.within_events is None


def _match(row: MatchRow) -> Hashable:
    return row.query, row.window, tuple(row.bindings.items()), round(row.confidence, _DIGITS)


def _said(row: MatchRow) -> Hashable:
    return _said_but_for_more(row), row.capped


def _said_but_for_more(row: MatchRow) -> Hashable:
    return *_match(row), row.count, row.count_exact, str(row.candidates), str(dict(row.values))


def _shown(outcome: Outcome) -> str:
    return shown(outcome.rows) + (" unfinished" if outcome.is_unfinished else "")


BUDGETED: Mapping[str, st.SearchStrategy[Budgeted]] = {
    f"{name}, small budget": budgeted_cases(name)
    for name in ("everything", "output", "several negations", "selection", "windows", "unions", "groups", "next match")
}
"""Looked at in turn with the other fields."""


__all__ = ["BUDGETED", "Budgeted", "budgeted_cases", "difference", "load_budgeted"]
