"""What the engine could not do, as problems: a query that fails, events that a query cannot evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import engine
from app.store.writing.problems import NewProblem
from engine.errors import QueryError

SOURCE = "engine"
_FAILED, _PLACE = "query_failed", "query "


class EngineWatch:
    """Collects what goes wrong in matching until the pipeline's step writes it down."""

    def __init__(self) -> None:
        self._problems: list[NewProblem] = []
        self._n_rejected: dict[str, int] = {}
        self._n_too_long: dict[str, int] = {}
        self._n_unfinished: dict[str, int] = {}

    def failed(self, query: str, error: QueryError) -> None:
        """A query turned out to be one that its runtime does not evaluate; it starts again without a past."""
        self._problems.append(NewProblem(SOURCE, f"{_PLACE}{query}", _FAILED, str(error)))

    def complaints(self, matcher: Callable[[], object]) -> Callable[[], list[NewProblem]]:
        """A function that gives what went wrong since its last call, that of the pipeline's matcher included."""

        def drain() -> list[NewProblem]:
            now = matcher()
            if isinstance(now, engine.Engine):
                self._look_for_rejected(now)
                self._look_for_too_long(now)
                self._look_for_unfinished(now)
            problems, self._problems = self._problems, []
            return problems

        return drain

    def _look_for_rejected(self, matcher: engine.Engine) -> None:
        for name, counted in matcher.statistics.items():
            n_new = counted.n_rejected - self._n_rejected.get(name, 0)
            self._n_rejected[name] = counted.n_rejected
            if n_new > 0:
                message = f"{n_new} events {self._why(matcher, name)}"
                self._problems.append(NewProblem(SOURCE, f"query {name}", "imprecise_events", message))

    def _why(self, matcher: engine.Engine, name: str) -> str:
        compiled = next(query for query in matcher.queries if query.name == name)
        may_be_exact = compiled.resolved.is_trend and compiled.exact_times is None
        left_out = "left out" if may_be_exact else "without an exact time left out"
        return left_out if compiled.left_out_for is None else f"{left_out}: {compiled.left_out_for}"

    def _look_for_too_long(self, matcher: engine.Engine) -> None:
        named = {event.query: event for event in matcher.take_refused()}
        for name, counted in matcher.statistics.items():
            n_new = counted.n_too_long - self._n_too_long.get(name, 0)
            self._n_too_long[name] = counted.n_too_long
            if n_new > 0:
                example = f", the last one {named[name]}" if name in named else ""
                message = f"{n_new} events left out, their intervals being longer than the query's window{example}"
                self._problems.append(NewProblem(SOURCE, f"query {name}", "longer_than_window", message))

    def _look_for_unfinished(self, matcher: engine.Engine) -> None:
        for name, counted in matcher.statistics.items():
            n_new = counted.n_unfinished - self._n_unfinished.get(name, 0)
            self._n_unfinished[name] = counted.n_unfinished
            if n_new > 0:
                message = f"{n_new} searches stopped by the work budget: matches may be missing, and alerts"
                self._problems.append(NewProblem(SOURCE, f"query {name}", "search_unfinished", message))


def failed_queries(problems: Iterable[NewProblem]) -> set[str]:
    """The queries that these say have failed."""
    return {
        problem.place.removeprefix(_PLACE)
        for problem in problems
        if (problem.source, problem.kind) == (SOURCE, _FAILED)
    }
