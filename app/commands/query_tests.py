"""`clustercep test`: every NAME.cep runs against the cases of its NAME.test.yaml.

A case has a name, parameters, events and the rows to expect. An event is a mapping of `type`, `t` (or `t_lo` and
`t_hi`) and attributes; a time is a number of milliseconds, an offset such as `5 s` or `2 min`, or an ISO time. An
expected row names what is compared: key, bindings, values, confidence, count; what it leaves out may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import engine
from app.durations import parse_duration_ms
from app.nearest_name import near_query
from app.queries.loading import MAX_QUERY_BYTES, read_query
from app.yaml_text import load_yaml
from engine.errors import EngineError
from engine.events import FOREVER_MS, HEADER_NAMES, EventBatch, EventSchema

CASE_KEYS = frozenset({"name", "parameters", "events", "expect"})
ROW_KEYS = ("key", "bindings", "values", "confidence", "count")
MAX_TEST_BYTES = 16 * MAX_QUERY_BYTES

if TYPE_CHECKING:
    from engine import Binding, MatchRow

Evaluate = Callable[[str, Mapping[str, str], Mapping[str, Any], EventBatch], Sequence["MatchRow"]]
"""(name, texts of it and of those beside it, parameters, events) -> its rows; raises EngineError."""


class CasesError(Exception):
    """A test file that says something else than cases; the message names the place."""


@dataclass(frozen=True)
class CaseResult:
    """One case: what is wrong, line by line; empty when it passed."""

    name: str
    fires: bool
    complaints: tuple[str, ...] = ()


@dataclass
class QueryResult:
    """One query file with its cases."""

    path: Path
    cases: list[CaseResult] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What is wrong with the files themselves."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        cases = [{"name": case.name, "complaints": case.complaints} for case in self.cases]
        return {"path": str(self.path), "passed": self.passed, "complaints": self.complaints, "cases": cases}

    @property
    def passed(self) -> bool:
        """True when there is nothing to complain of."""
        return not self.complaints and not any(case.complaints for case in self.cases)


def run_tests(places: Sequence[Path], schema: EventSchema, evaluate: Evaluate | None = None) -> list[QueryResult]:
    """Test query files, and all of the folders (with what is below them), in order of path.

    A query may use the matches of those that are beside it.
    """
    evaluate = evaluate or engine_rows(schema)
    return [_test_query(path, schema, evaluate) for path in _query_paths(places)]


def engine_rows(schema: EventSchema) -> Evaluate:
    """Evaluation by the engine."""

    def evaluate(
        name: str, texts: Mapping[str, str], parameters: Mapping[str, Any], events: EventBatch
    ) -> Sequence[MatchRow]:
        queries = engine.compile_queries(texts, schema, {name: parameters}, only=[name])
        rows = engine.Engine(queries, schema).process(events, FOREVER_MS)
        return rows if len(queries) == 1 else [row for row in rows if row.query == name]

    return evaluate


def read_events(rows: Sequence[Any], place: str, schema: EventSchema) -> EventBatch:
    """The events of a case; raises CasesError that names the row."""
    read = [_event(row, number, f"{place}, event {number}", schema) for number, row in enumerate(rows, 1)]
    try:
        events, refused = engine.admit(EventBatch.from_rows(read, schema))
    except EngineError as error:
        raise CasesError(f"{place}: {error}") from None
    if refused.n_events:
        raise CasesError(f"{place}: {refused.summary()}")
    return events


def differences(expected: Sequence[Mapping[str, Any]], got: Sequence[MatchRow]) -> list[str]:
    """What was expected and did not come, and what came unexpected; empty when both agree in any order."""
    partner_of = _assign([[_agrees(want, row) for row in got] for want in expected])
    missing = [want for i, want in enumerate(expected) if i not in partner_of]
    extra = [row for j, row in enumerate(got) if j not in partner_of.values()]
    shown = _compared_keys(expected)
    return [
        *(f"expected, missing: {_text(want)}" for want in missing),
        *(f"got, unexpected:   {_text(_row(row, shown))}" for row in extra),
    ]


def _query_paths(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            found = sorted(place.rglob("*.cep"))
            if not found:
                raise CasesError(f"{place}: no .cep file; expected queries to test")
            yield from found
        elif place.is_file():
            yield place
        else:
            raise CasesError(f"{place}: not there; expected a folder of queries, or a .cep file{near_query(place)}")


def _test_query(path: Path, schema: EventSchema, evaluate: Evaluate) -> QueryResult:
    result = QueryResult(path)
    test_path = path.with_suffix(".test.yaml")
    try:
        text = read_query(path)
    except (OSError, ValueError) as error:
        result.complaints.append(f"{path}: {error}")
        return result
    try:
        cases = _read_cases(test_path)
    except (OSError, UnicodeDecodeError, CasesError) as error:
        result.complaints.append(str(error))
        return result
    texts = {**_texts_beside(path), path.stem: text}
    for number, case in enumerate(cases, 1):
        place = f"{test_path}: case {number} ({case.get('name')!r})"
        result.cases.append(_run_case(path.stem, texts, case, place, schema, evaluate))
    if not any(case.fires for case in result.cases):
        result.complaints.append(f"{test_path}: no case in which the query fires; add one")
    if all(case.fires for case in result.cases):
        result.complaints.append(f"{test_path}: no case in which the query stays silent (expect: []); add one")
    return result


def _texts_beside(path: Path) -> dict[str, str]:
    """The other queries of the folder, by name; what is wrong with one of them is told where it is tested."""
    texts: dict[str, str] = {}
    for other in sorted(path.parent.glob("*.cep")):
        try:
            texts[other.stem] = read_query(other)
        except (OSError, ValueError):
            continue
    return texts


def _read_cases(path: Path) -> list[Mapping[str, Any]]:
    if not path.is_file():
        raise CasesError(f"{path}: not there; a query needs a test file with a firing and a silent case")
    if path.stat().st_size > MAX_TEST_BYTES:
        raise CasesError(f"{path}: more than {MAX_TEST_BYTES} bytes; expected a test file")
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise CasesError(f"{path}: not YAML: {error}") from None
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list) or not cases:
        raise CasesError(f"{path}: found no list 'cases'; expected at least a firing and a silent case")
    for number, case in enumerate(cases, 1):
        _check_case(case, f"{path}: case {number}")
    return cases


def _check_case(case: Any, place: str) -> None:
    if not isinstance(case, dict):
        raise CasesError(f"{place}: found {case!r}; expected name, events and expect")
    unknown = sorted(map(str, set(case) - CASE_KEYS))
    missing = sorted({"name", "events", "expect"} - set(case))
    if unknown or missing:
        found = f"unknown {', '.join(unknown)}" if unknown else f"no {', '.join(missing)}"
        raise CasesError(f"{place}: {found}; expected {', '.join(sorted(CASE_KEYS))} (parameters may be left out)")
    if not isinstance(case["events"], list) or not isinstance(case["expect"], list):
        raise CasesError(f"{place}: events and expect must be lists (no row: [])")
    if not isinstance(case.get("parameters") or {}, dict):
        raise CasesError(f"{place}: parameters must be a mapping of names to values")
    for row in case["expect"]:
        if not isinstance(row, dict) or not row or set(row) - set(ROW_KEYS):
            raise CasesError(f"{place}: expected row {row!r}; a row gives some of {', '.join(ROW_KEYS)}")


def _run_case(
    name: str, texts: Mapping[str, str], case: Mapping[str, Any], place: str, schema: EventSchema, evaluate: Evaluate
) -> CaseResult:
    fires = bool(case["expect"])
    try:
        events = read_events(case["events"], place, schema)
        rows = evaluate(name, texts, case.get("parameters") or {}, events)
        complaints = differences(case["expect"], rows)
    except (EngineError, CasesError) as error:
        complaints = str(error).splitlines()
    return CaseResult(str(case["name"]), fires, tuple(complaints))


def _event(row: Any, number: int, place: str, schema: EventSchema) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row.get("type"), str):
        raise CasesError(f"{place}: found {row!r}; expected a mapping with type and t")
    row = dict(row)
    event_type = row.pop("type")
    attributes = schema.types.get(event_type)
    if attributes is None:
        raise CasesError(f"{place}: unknown type {event_type!r}; expected one of {', '.join(sorted(schema.types))}")
    event_id = str(row.pop("id", number))
    if "t" in row:
        t_ms, skew_ms = _time_ms(row.pop("t"), place), row.get("skew_ms", 0)
        if not isinstance(skew_ms, int) or isinstance(skew_ms, bool) or skew_ms < 0:
            raise CasesError(f"{place}: skew_ms is {skew_ms!r}; expected a whole number from 0")
        t_lo_ms, t_hi_ms = t_ms - skew_ms, t_ms + skew_ms
    elif "t_lo" in row and "t_hi" in row:
        t_lo_ms, t_hi_ms = _time_ms(row.pop("t_lo"), place), _time_ms(row.pop("t_hi"), place)
    else:
        raise CasesError(f"{place}: no time; expected t, or t_lo and t_hi")
    header = {name: row.pop(name) for name in HEADER_NAMES if name in row}
    unknown = sorted(map(str, set(row) - set(attributes)))
    if unknown:
        raise CasesError(f"{place}: {event_type} has no {', '.join(unknown)}; it has {', '.join(attributes)}")
    order = {"source_seq": number, "source_rank": 0}
    return {**order, **header, **row, "event_id": event_id, "type": event_type, "t_lo_ms": t_lo_ms, "t_hi_ms": t_hi_ms}


def _time_ms(value: Any, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    if isinstance(value, str):
        try:
            return parse_duration_ms(value)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(value)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except ValueError:
            pass
    shown = value.isoformat() if isinstance(value, date) else repr(value)
    raise CasesError(f"{place}: time {shown}; expected milliseconds, an offset such as '5 s', or an ISO time")


def _agrees(want: Mapping[str, Any], row: MatchRow) -> bool:
    got = _row(row, {name: set(part) if isinstance(part, dict) else None for name, part in want.items()})
    return all(_same(part, got[name]) for name, part in want.items())


def _as_lists(binding: Binding) -> list[Any]:
    """Nested lists, as a file of cases writes the bindings of repeated groups."""
    return [entry if isinstance(entry, str) else _as_lists(entry) for entry in binding]


def _row(row: MatchRow, keys: Mapping[str, set[str] | None]) -> dict[str, Any]:
    """The parts of a row that are compared; a name the row lacks shows as null."""
    parts: dict[str, Any] = {
        "key": dict(row.key),
        "bindings": {name: _as_lists(ids) for name, ids in row.bindings.items()},
        "values": dict(row.values),
        "confidence": row.confidence,
        "count": row.count,
    }
    return {
        part: parts[part] if names is None else {name: parts[part].get(name) for name in sorted(names)}
        for part, names in keys.items()
    }


def _compared_keys(expected: Sequence[Mapping[str, Any]]) -> dict[str, set[str] | None]:
    keys: dict[str, set[str] | None] = {}
    for want in expected:
        for part, content in want.items():
            names = set(content) if isinstance(content, dict) else None
            known = keys.get(part)
            keys[part] = names if names is None or known is None else known | names
    return keys or dict.fromkeys(ROW_KEYS)


def _same(want: Any, got: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(_same(value, got.get(name)) for name, value in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and [str(item) for item in want] == [str(item) for item in got]
    if _is_number(want) and _is_number(got):
        return math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(want) and math.isnan(got))
    return type(want) is type(got) and bool(want == got)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _assign(agrees: Sequence[Sequence[bool]]) -> dict[int, int]:
    """The most pairs (expected, got) that agree: augmenting paths, for a general row may fit several."""
    expected_of: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j, fits in enumerate(agrees[i]):
            if fits and j not in seen:
                seen.add(j)
                if j not in expected_of or place(expected_of[j], seen):
                    expected_of[j] = i
                    return True
        return False

    for i in range(len(agrees)):
        place(i, set())
    return {i: j for j, i in expected_of.items()}


def _text(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()
