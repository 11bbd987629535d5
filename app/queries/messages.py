"""What is said of a query that runs in a process of its own: the request, and messages as things happen.

How far it is, each row as soon as it is decided, how it ended and why; as JSON, one line each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar

import engine
from engine.events import EventSchema

Value = int | float | str | None
Parameters = Mapping[str, int | float | str]

MAX_IDS = 1_000
"""Event ids that a row tells per variable; a collapsed row may have as many candidates as there are events."""


class EndReason(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    EVENT_LIMIT = "event_limit"
    ROW_LIMIT = "row_limit"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What to evaluate: the events that touch [from_ms, to_ms]; None: an open end.

    `others`: texts by name of the queries whose matches it uses, `others_parameters` their values.
    """

    text: str
    parameters: Parameters
    from_ms: int | None
    to_ms: int | None
    name: str = "query"
    others: Mapping[str, str] = field(default_factory=dict)
    others_parameters: Mapping[str, Parameters] = field(default_factory=dict)

    def variables_of_others(self) -> dict[str, str]:
        """The query whose matches a variable stands for, where it does; raises QueryError for a text that is none."""
        types = {name.replace("-", "_"): name for name in self.others}
        components = engine.ast.components(engine.parse(self.text, self.name).pattern)
        return {each.variable: types[each.event_type] for each, _ in components if each.event_type in types}

    def compiled(self, schema: EventSchema) -> list[engine.CompiledQuery]:
        """The query, last, after those that it uses; raises QueryError."""
        texts = {**self.others, self.name: self.text}
        parameters = {**self.others_parameters, self.name: self.parameters}
        return engine.compile_queries(texts, schema, parameters, only=[self.name])


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may cost. `row_chars`: of all rows together, as JSON."""

    max_events: int
    timeout_ms: int
    engine_max_rows: int = 100_000
    engine_work_budget: int = 2_000_000
    max_rows: int = 10_000
    max_row_chars: int = 16 * 2**20
    max_memory_bytes: int = 4 * 2**30


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """What one run over the event store may cost; `row_chars` as in RunLimits."""

    timeout_ms: int
    max_rows: int = 10_000
    max_row_chars: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run over the event log is: events done of about `n_estimated`, and how far its watermark is."""

    kind: ClassVar[str] = "progress"
    n_events: int
    n_estimated: int
    watermark_ms: int | None
    n_rows: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a run on Spark is at, and how many of its tasks are done; `n_tasks` 0 while their number is not known."""

    kind: ClassVar[str] = "tasks"
    what: str
    n_done: int = 0
    n_tasks: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody has to know who takes the rows for all of them; meant for the user."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of the query as JSON can say it; the fields are those of `engine.MatchRow`.

    `values` and `key` have None for NaN, and text for infinities. `bindings` and `candidates` hold at most MAX_IDS ids
    per variable; `n_bound` says how many each variable binds.
    """

    kind: ClassVar[str] = "row"
    key: dict[str, Value]
    first_lo_ms: int
    last_hi_ms: int
    bindings: dict[str, list[str]]
    n_bound: dict[str, int]
    confidence: float
    values: dict[str, Value]
    count: int = 1
    count_exact: bool = True
    candidates: dict[str, list[str]] | None = None
    exact: bool = True
    capped: bool = False
    of_trends: bool = False
    """It is about all trends of a group in the window from `first_lo_ms` to `last_hi_ms`, of which `bindings` has a
    sample at most; `exact`: none of its whole numbers is rounded."""
    expected: str | None = None
    """The text of an `Expectation`: what its numbers are, where not all times are known."""


@dataclass(frozen=True, slots=True)
class WindowValues:
    """What a query about trends would return without HAVING: for each window and group, beside each other, when the
    window ends, the group, and each number; None for NULL and NaN, text for what is no finite double."""

    kind: ClassVar[str] = "windows"
    end_ms: list[int]
    groups: list[dict[str, Value]]
    values: dict[str, list[Value]]


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended.

    `n_rejected`: events that the strategy cannot evaluate; `n_unfinished`: searches stopped by the work budget;
    `n_late`: events out of order in the log; `capped`: LIMIT, or what the engine may return of one step, left rows out;
    `assumes_end`: rows say that something did not happen up to the end of the span, where the log may go on;
    `left_out_for`: why the events of `n_rejected` were left out.
    """

    kind: ClassVar[str] = "end"
    reason: EndReason
    n_events: int
    n_rows: int
    n_rejected: int
    n_unfinished: int
    n_late: int
    capped: bool
    assumes_end: bool
    seconds: float
    left_out_for: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that could not begin or go on; the message is meant for the user."""

    kind: ClassVar[str] = "failure"
    message: str


Message = Progress | Tasks | Note | ResultRow | WindowValues | End | Failure
_KINDS: dict[str, type[Message]] = {
    message.kind: message for message in (Progress, Tasks, Note, ResultRow, WindowValues, End, Failure)
}


def as_json(message: Message) -> dict[str, Any]:
    """A message as JSON has it."""
    return {"kind": message.kind, **asdict(message)}


def from_json(value: Mapping[str, Any]) -> Message:
    """What `as_json` gave; raises ValueError for anything else."""
    kind = _KINDS.get(str(value.get("kind")))
    given = {name: item for name, item in value.items() if name != "kind"}
    if kind is None or not set(given) <= {item.name for item in fields(kind)}:
        raise ValueError(f"no message of a run: {sorted(value)}")
    try:
        if kind is End:
            given["reason"] = EndReason(given["reason"])
        return kind(**given)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no message of a run: {error}") from None


def request_line(request: QueryRequest, limits: RunLimits | HistoryLimits) -> bytes:
    """What a process that is to evaluate a request reads, as one line."""
    return json.dumps({"request": asdict(request), "limits": asdict(limits)}).encode() + b"\n"


def read_request(line: str | bytes) -> tuple[QueryRequest, RunLimits]:
    """What `request_line` wrote; raises ValueError, KeyError or TypeError for anything else."""
    value = json.loads(line)
    return QueryRequest(**value["request"]), RunLimits(**value["limits"])


def read_history_request(line: str | bytes) -> tuple[QueryRequest, HistoryLimits]:
    """As `read_request`, for a run over the event store."""
    value = json.loads(line)
    return QueryRequest(**value["request"]), HistoryLimits(**value["limits"])


def result_row(row: engine.MatchRow) -> ResultRow:
    """A row without what JSON does not know."""
    return ResultRow(
        key={name: _plain(value) for name, value in row.key},
        first_lo_ms=int(row.first_lo_ms),
        last_hi_ms=int(row.last_hi_ms),
        bindings=_ids(row.bindings),
        n_bound={name: sum(1 for _ in engine.flat_ids(ids)) for name, ids in row.bindings.items()},
        confidence=float(row.confidence),
        values={name: _plain(value) for name, value in row.values.items()},
        count=int(row.count),
        count_exact=bool(row.count_exact),
        candidates=None if row.candidates is None else _ids(row.candidates),
        exact=bool(row.exact),
        capped=bool(row.capped),
        of_trends=row.is_of_trends,
        expected=None if row.expected is None else str(row.expected),
    )


def window_values(rows: Sequence[engine.MatchRow], names: Sequence[str]) -> WindowValues:
    """These values of rows about trends."""
    return WindowValues(
        end_ms=[int(row.last_hi_ms) for row in rows],
        groups=[{name: _plain(value) for name, value in row.key} for row in rows],
        values={name: [_plain(row.values[name]) for row in rows] for name in names},
    )


def n_chars(row: ResultRow) -> int:
    """About how long a row is."""
    ids = [*row.bindings.values(), *(row.candidates or {}).values()]
    texts = [*row.key.values(), *row.values.values()]
    return 200 + sum(len(item) + 4 for group in ids for item in group) + sum(len(str(text)) + 20 for text in texts)


def assumes_end(query: engine.CompiledQuery) -> bool:
    """Whether rows may say that something did not happen up to the end of what is read."""
    return any(_is_trailing(each) for each in query.chain)


def _is_trailing(query: engine.CompiledQuery) -> bool:
    is_at_end = any(negation.after == query.plan.n_steps - 1 for negation in query.plan.negations)
    return is_at_end or query.resolved.is_trend  # of a window that is not over yet


def _ids(bound: Mapping[str, engine.Binding]) -> dict[str, list[str]]:
    return {name: list(islice(engine.flat_ids(ids), MAX_IDS)) for name, ids in bound.items()}


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


__all__ = [
    "MAX_IDS",
    "End",
    "EndReason",
    "Failure",
    "HistoryLimits",
    "Message",
    "Note",
    "Parameters",
    "Progress",
    "QueryRequest",
    "ResultRow",
    "RunLimits",
    "Tasks",
    "Value",
    "WindowValues",
    "as_json",
    "assumes_end",
    "from_json",
    "n_chars",
    "read_history_request",
    "read_request",
    "request_line",
    "result_row",
    "window_values",
]
