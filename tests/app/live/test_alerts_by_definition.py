"""Alerts of drawn queries over drawn streams, in any steps and restarts, against all rows of the oracle together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import engine
from app.alerting.recording.options import AlertingOptions
from app.live.bound_matches import BoundMatches
from app.live.recent import RecentEvents, last_events, longest_windows
from app.queries.loading import describe
from app.store import Store, open_store
from collectors.base import Collected
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import EventBatch
from tests.app.alerting_fixtures import receiver
from tests.app.pipeline_fixtures import Process, start
from tests.engine.strategies import ANY, SCHEMA
from tests.examples import examples
from tests.new_store import placed

LATE_MS = 9
"""An event comes so much later than it happens at most, and is waited for."""
OVER_MS = (76, 120, 200)
"""Steps after the last event: all is decided."""
TITLE = "{bx} {bx.max} {bx.min} {ax.first} {ax.last} {ss} {yy} {sa.first}"

Shown = tuple[str, str, tuple[str, ...]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Clauses:
    """What an alert tells, as the query says it."""

    per: str | None = None
    shown: tuple[Shown, ...] = ()
    hosts: tuple[tuple[str, str], ...] = ()
    onset: str | None = None
    gap_ms: int = 0

    def __str__(self) -> str:
        told = [f"{a} {n}" + (f" WITH ({', '.join(beside)})" if beside else "") for a, n, beside in self.shown]
        lines = [f"ALERT warning '{TITLE}'" + (f" PER {self.per}" if self.per else "")]
        lines += [f"SHOW {', '.join(told)}"] if told else []
        lines += ["HOSTS " + ", ".join(f"{role} {name}" for role, name in self.hosts)] if self.hosts else []
        lines += [f"ONSET {self.onset}"] if self.onset else []
        return "\n".join([*lines, f"GROUP_GAP {self.gap_ms}"])


@dataclass(frozen=True)
class Case:
    """`rows` come at `arrivals`, those of `copied` from a second source as well; `steps` and `restarts`: times.
    `lower`: a query whose matches the other one may use."""

    query: str
    clauses: Clauses
    rows: Sequence[Row]
    arrivals: Sequence[int]
    steps: Sequence[int] = ()
    restarts: frozenset[int] = frozenset()
    copied: frozenset[int] = frozenset()
    most_alerts: int = 64
    lower: str = ""

    @property
    def texts(self) -> dict[str, str]:
        return {"q": f"{self.query}\n{self.clauses}", **({"low": self.lower} if self.lower else {})}

    def __repr__(self) -> str:
        rows = (f"{at} {row}" for at, row in zip(self.arrivals, self.rows, strict=True))
        last = f"steps {self.steps} restarts {sorted(self.restarts)} copied {sorted(self.copied)} {self.most_alerts}"
        return "\n".join([*self.texts.values(), *rows, last])


class Follower:
    """A source of events of the tests' schema."""

    def __init__(self, name: str, rows: Sequence[tuple[int, Row]]) -> None:
        self.name = name
        self._rows = rows
        self._read_ms = -1

    def poll(self, now_ms: int) -> Collected:
        found = [row for at_ms, row in self._rows if self._read_ms < at_ms <= now_ms]
        self._read_ms = now_ms
        return Collected(EventBatch.from_rows(found, SCHEMA), now_ms - LATE_MS)

    def checkpoint(self) -> dict[str, Any]:
        return {"read_ms": self._read_ms}

    def restore(self, position: Mapping[str, Any]) -> None:
        self._read_ms = position["read_ms"]


# ----------------------------------------------------------------- by definition


@dataclass
class Expected:
    """An alert as docs/query-language.md has it, of all matches of its episode."""

    matches: list[engine.ReferenceRow]
    key: Row
    clauses: Clauses
    events: Mapping[str, Row]
    content: Row = field(init=False)

    def __post_init__(self) -> None:
        self.matches.sort(key=lambda row: (row.last_hi_ms, row.first_lo_ms, _digest(row)))
        values = dict(self.matches[-1].values)
        showing = []
        for aspect, name, beside in self.clauses.shown:
            match = self._of(aspect, name)
            showing += [match] if match is not None else []
            values |= {each: None if match is None else match.values[each] for each in (name, *beside)}
        match = showing[0] if showing else self.matches[-1]
        told = [
            values["bx"],
            *(self._value(a, n) for a, n in (("MAX", "bx"), ("MIN", "bx"), ("FIRST", "ax"), ("LAST", "ax"))),
        ]
        told += [values["ss"], values["yy"], self._value("FIRST", "sa")]
        self.content = {
            "key": sorted(self.key.items()),
            "span": (min(row.first_lo_ms for row in self.matches), max(row.last_hi_ms for row in self.matches)),
            "n_matches": sum(row.count for row in self.matches),
            "values": {name: _stored(value) for name, value in values.items()},
            "summary": " ".join(map(_written, told)),
            "onset": min(map(self._onset, self.matches)),
            "evidence": [self._known(i) for ids in match.bindings.values() for i in engine.flat_ids(ids)],
            "roles": self._roles(),
            "first": [host for host in self._suspects(match) if self._roles()[host] == "suspect"][:1],
        }

    def _of(self, aspect: str, name: str) -> engine.ReferenceRow | None:
        if aspect in ("FIRST", "LAST"):
            return self.matches[0 if aspect == "FIRST" else -1]
        numbers = [(row.values[name], row) for row in self.matches if _is_number(row.values[name])]
        if not numbers:
            return None
        most = (max if aspect == "MAX" else min)(number for number, _ in numbers)
        return next(row for number, row in numbers if number == most)

    def _value(self, aspect: str, name: str) -> Any:
        match = self._of(aspect, name)
        return None if match is None else match.values[name]

    def _onset(self, row: engine.ReferenceRow) -> int:
        """Without ONSET the condition began with the last event of the first match."""
        ids = list(engine.flat_ids(row.bindings.get(self.clauses.onset or "", ())))
        return min([row.last_hi_ms, *(self.events[i]["t_hi_ms"] for i in ids[:1])])

    def _known(self, event_id: str) -> tuple[Any, ...]:
        row = self.events[event_id]
        return event_id, row["type"], row["t_lo_ms"], row["t_hi_ms"], row["s"]

    def _roles(self) -> dict[str, str]:
        """A host that is named in both roles is a suspect."""
        named = [
            (row.values[n], role.lower()) for row in self.matches for role, n in self.clauses.hosts if row.values[n]
        ]
        return {host: "suspect" if (host, "suspect") in named else "affected" for host, _ in named}

    def _suspects(self, row: engine.ReferenceRow) -> list[str]:
        return [row.values[name] for role, name in self.clauses.hosts if role == "SUSPECT" and row.values[name]]


def by_definition(rows: Sequence[engine.ReferenceRow], events: Mapping[str, Row], case: Case) -> list[Row]:
    by_key: dict[str, list[tuple[Row, engine.ReferenceRow]]] = {}
    for row in rows:
        key = {**dict(row.key), **({case.clauses.per: row.values[case.clauses.per]} if case.clauses.per else {})}
        by_key.setdefault(repr(sorted(key.items())), []).append((key, row))
    found = []
    for members in by_key.values():
        episodes: list[list[engine.ReferenceRow]] = []
        for _, row in sorted(members, key=lambda member: member[1].first_lo_ms):
            end_ms = max((other.last_hi_ms for other in episodes[-1]), default=0) if episodes else -1_000
            if row.first_lo_ms <= end_ms + case.clauses.gap_ms:
                episodes[-1].append(row)
            else:
                episodes.append([row])
        found += [Expected(episode, members[0][0], case.clauses, events).content for episode in episodes]
    return sorted(found, key=repr)


def _digest(row: engine.ReferenceRow) -> str:
    return engine.bindings_digest(row.bindings) + ("" if row.window is None else "-".join(map(str, row.window)))


def _is_number(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def _stored(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else repr(value)


def _written(value: Any) -> str:
    return "unknown" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


# ------------------------------------------------------------------ what is stored


@contextmanager
def _process(case: Case, folder: Path, now_ms: int) -> Iterator[tuple[Store, Process]]:
    """A life of the process: the query is read again."""
    queries = engine.compile_queries(case.texts, SCHEMA)
    infos = {query.name: describe(query, "", 1) for query in queries}
    arriving = list(zip(case.arrivals, case.rows, strict=True))
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        process = start(
            store,
            folder / "files",
            [],
            now_ms=now_ms,
            timeout_ms=10**6,
            alerting=AlertingOptions(infos, {"ops": receiver()}, 200, 10**15),
            recent=RecentEvents(
                longest_windows((info.types, info.keep_ms) for info in infos.values()),
                last=last_events((info.types, info.key, info.within_events) for info in infos.values()),
            ),
            matcher=engine.Engine(queries, SCHEMA, limits=engine.Limits(possibilities=True)),
            collectors=[Follower("yarn_rest", arriving), Follower("job_history", [arriving[i] for i in case.copied])],
            bound_matches=BoundMatches(infos),
        )
        process.pipeline.most_alerts = case.most_alerts
        yield store, process


def stored(case: Case, folder: Path) -> list[Row]:
    """The alerts when all is over; each was told to fire and to be over."""
    placed(folder / "store.db")
    for life in lives_of(case):
        with _process(case, folder, life[0]) as (_, process):
            for now_ms in life:
                process.run(now_ms, now_ms)
                while process.pipeline.is_behind:
                    process.pipeline.step(now_ms)
    return told_alerts(folder)


def lives_of(case: Case) -> list[list[int]]:
    """The times of the steps, by life of the process."""
    lives: list[list[int]] = []
    for now_ms in sorted({*case.steps, *OVER_MS}):
        if not lives or lives[-1][-1] in case.restarts:
            lives.append([now_ms])
        else:
            lives[-1].append(now_ms)
    return lives


def told_alerts(folder: Path) -> list[Row]:
    """The alerts of a store in which all is over."""
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        alerts = [alert for alert in store.alerts() if alert.query == "q" and alert.merged_into is None]
        told = Counter(message.state for message in store.notifications())
        assert all(alert.state == "resolved" for alert in alerts)
        assert min(told["firing"], told["resolved"]) >= len(alerts)
        return sorted((content(store, alert.id) for alert in alerts), key=repr)


def content(store: Store, alert_id: str) -> Row:
    details = store.alert(alert_id)
    assert details is not None
    alert = details.alert
    return {
        "key": sorted(alert.key.items()),
        "span": (alert.start_ms, alert.end_ms),
        "n_matches": alert.n_matches,
        "values": dict(alert.values),
        "summary": alert.summary,
        "onset": alert.onset_ms,
        "evidence": [(e.event_id, e.type, e.t_lo_ms, e.t_hi_ms, e.attributes.get("s")) for e in details.evidence],
        "roles": {host.host: host.role for host in alert.hosts},
        "first": [host.host for host in alert.hosts if host.role == "suspect"][:1],
    }


def check(case: Case, folder: Path, stored_by: Callable[[Case, Path], list[Row]] = stored) -> int:
    """Compare; returns how many alerts there are. Raises QueryError for what is not evaluated."""
    queries = {query.name: query for query in engine.compile_queries(case.texts, SCHEMA)}

    def identify(query: engine.ResolvedQuery, row: engine.ReferenceRow) -> str:
        return engine.match_id(query.name, queries[query.name].hash, row.key, row.window, row.bindings)

    stream = EventBatch.from_rows(case.rows, SCHEMA)
    rows = engine.reference_cascade([query.resolved for query in queries.values()], stream, identify=identify)
    events = {row["event_id"]: row for row in case.rows}
    for row in rows.get("low", ()):
        times = {"t_lo_ms": row.first_lo_ms, "t_hi_ms": row.last_hi_ms}
        events[identify(queries["low"].resolved, row)] = {"type": "low", **times, **row.values}
    expected = by_definition(rows["q"], events, case)
    found = stored_by(case, folder)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == other
    return len(found)


# ------------------------------------------------------------------------ drawn

_PATTERNS = st.sampled_from(
    [
        ("SEQ(A a, B b)", "skip_till_any_match", "b"),
        ("SEQ(A a, B+ b[])", "skip_till_next_match", "b[b.len]"),
        ("SEQ(A a, B+ b[])", "skip_till_any_match", "b[b.len]"),
        ("SEQ(A a, B b, !C c)", "skip_till_any_match", "b"),
        ("SEQ(!C c, A a, B b)", "skip_till_any_match", "b"),
        ("SEQ(A a, B+ b[])", "partition_contiguity", "b[b.len]"),
        ("SEQ(A a, N? n, B b)", "skip_till_any_match", "b"),
        ("AND(A a, B b)", "skip_till_any_match", "b"),
    ]
)
_KEYS = st.sampled_from(["", "{ [k] }", "{ [k] }", "{ [k] AND [j] }"])
_WINDOWS = st.sampled_from(["6", "15", "15 SLIDE 5", "10 OPEN ON x > 1", "3 EVENTS", "5 EVENTS"])
_FORMS = st.sampled_from(
    [
        "",
        "",
        "OUTPUT SETS",
        "OUTPUT NON_OVERLAPPING",
        "SELECT FIRST",
        "CONSUME a",
        "LIMIT 2",
        "OUTPUT TOP 2 BY CONFIDENCE",
    ]
)
_LOWER = st.builds(
    "PATTERN {}\nWHERE skip_till_any_match {{ [k] AND [j] }}\nWITHIN 9\nRETURN a.x AS x, a.y AS y, a.s AS s{}".format,
    st.sampled_from(["SEQ(A a)", "SEQ(A a, !C c)", "SEQ(A a, B b)"]),
    st.sampled_from(["", "\nALERT info 'low'", "\nREPORT 'low'"]),
)
_CLAUSES = st.builds(
    Clauses,
    per=st.sampled_from([None, None, "ss", "jj"]),
    shown=st.sampled_from(
        [
            (),
            (("MAX", "bx", ("ss", "yy")),),
            (("MIN", "yy", ()), ("FIRST", "sa", ())),
            (("FIRST", "bx", ("yy",)), ("MAX", "ax", ("sa",))),
            (("LAST", "ss", ()), ("MAX", "yy", ("bx",))),
        ]
    ),
    hosts=st.sampled_from([(("SUSPECT", "ss"), ("AFFECTED", "sa")), (("AFFECTED", "sa"), ("SUSPECT", "ss"))]),
    onset=st.sampled_from([None, "a", "b"]),
    gap_ms=st.sampled_from([0, 1, 3, 8]),
)


@st.composite
def _events(draw: st.DrawFn) -> list[Row]:
    width_ms, last_ms = draw(st.sampled_from([0, 0, 3])), draw(st.sampled_from([12, 40, 60]))
    drawn = st.fixed_dictionaries(
        {
            "type": st.sampled_from("AABBBCN"),
            "t_lo_ms": st.integers(0, last_ms),
            "t_hi_ms": st.sampled_from([0, 0, width_ms]),
            "k": st.sampled_from(["p", "p", "q", None]),
            "j": st.sampled_from([1, 1, 2]),
            "x": st.sampled_from([None, -1, 1, 2, 2, 3]),
            "y": st.sampled_from([None, 0.5, 1.0, -1.5, math.nan, math.inf]),
            "s": st.sampled_from(["n1", "n2", "n3", None]),
        }
    )
    rows: list[Row] = draw(st.lists(drawn, min_size=4, max_size=12))
    for row in rows:
        row["t_hi_ms"] += row["t_lo_ms"]
    rows.sort(key=lambda row: (row["t_hi_ms"], row["t_lo_ms"]))
    return [{**row, "event_id": f"e{n}", "source_seq": n} for n, row in enumerate(rows)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pattern, strategy, last = draw(_PATTERNS)
    values = f"a.x AS ax, {last}.x AS bx, {last}.y AS yy, {last}.s AS ss, a.s AS sa, a.j AS jj"
    form, within = draw(_FORMS), draw(_WINDOWS)
    if "EVENTS" in within and "!C c)" in pattern:  # what waits for further events is never decided
        within = "15"
    if ("LIMIT" in form or "TOP" in form) and not ("SLIDE" in within or "OPEN" in within):
        within = draw(st.sampled_from(["15 SLIDE 5", "10 OPEN ON x > 1"]))
    lower, certain = "", ""
    if draw(st.booleans()):
        lower = draw(_LOWER)
        pattern, certain = pattern.replace("A a", "low a"), "CERTAIN_ABOVE 0.3"
    query = f"PATTERN {pattern}\nWHERE {strategy} {draw(_KEYS)}\nWITHIN {within}\n{form}\n{certain}\nRETURN {values}"
    rows = draw(_events())
    if strategy != "skip_till_any_match" or "EVENTS" in query:  # others are left out
        rows = [{**row, "t_hi_ms": row["t_lo_ms"]} for row in rows]
    steps = draw(st.lists(st.integers(0, 75), max_size=8))
    return Case(
        query,
        draw(_CLAUSES),
        rows,
        [row["t_lo_ms"] + draw(st.integers(0, LATE_MS)) for row in rows],
        steps,
        frozenset(draw(st.lists(st.sampled_from([*steps, *OVER_MS]), max_size=3))),
        frozenset(draw(st.lists(st.integers(0, len(rows) - 1), max_size=3))),
        draw(st.sampled_from([1, 2, 64])),
        lower,
    )


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_drawn_alerts_are_those_of_all_matches(tmp_path_factory: Any, case: Case) -> None:
    try:
        check(case, tmp_path_factory.mktemp("drawn"))
    except (QueryError, UnsupportedQueryError):
        assume(False)


def test_windows_of_events_show_what_began_long_before(tmp_path: Path) -> None:
    """However far apart they are: nothing but the number of events is asked."""
    rows = [
        {"event_id": f"e{t}", "type": kind, "t_lo_ms": t, "t_hi_ms": t, "k": k, "j": 1, "x": t, "y": 0.5, "s": f"n{t}"}
        for t, kind, k in [(1, "A", "p"), (3, "A", "q"), (5, "N", "q"), (50, "B", "p"), (60, "B", "q")]
    ]
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 3 EVENTS RETURN " + (
        "a.x AS ax, b.x AS bx, b.y AS yy, b.s AS ss, a.s AS sa, a.j AS jj"
    )
    clauses = Clauses(onset="a", hosts=(("SUSPECT", "sa"),))
    case = Case(query, clauses, rows, [row["t_lo_ms"] for row in rows], range(0, 75, 5), frozenset({20, 55}))
    assert check(case, tmp_path) == 2


def test_alerts_show_the_matches_of_other_queries_that_they_bind(tmp_path: Path) -> None:
    """Whether these are there for others alone or not."""
    rows = [
        {
            "event_id": f"e{t}",
            "type": kind,
            "t_lo_ms": t,
            "t_hi_ms": t,
            "k": "p",
            "j": 1,
            "x": t,
            "y": 0.5,
            "s": f"n{t}",
        }
        for t, kind in [(1, "A"), (4, "B"), (40, "B")]
    ]
    lower = (
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 RETURN a.x AS x, a.y AS y, a.s AS s, a.j AS j"
    )
    query = "PATTERN SEQ(low a, B b) WHERE skip_till_any_match { [k] } WITHIN 50 RETURN " + (
        "a.x AS ax, b.x AS bx, b.y AS yy, b.s AS ss, a.s AS sa, a.j AS jj"
    )
    for told in ("", " ALERT info 'low'", " REPORT 'low'"):
        clauses = Clauses(onset="a", hosts=(("SUSPECT", "sa"),))
        arrivals = [row["t_lo_ms"] for row in rows]
        case = Case(query, clauses, rows, arrivals, range(0, 75, 5), frozenset({20, 55}), lower=lower + told)
        assert check(case, tmp_path / f"told{told[:3]}") == 1


def waiting_case(lower: str, window: str, clause: str) -> Case:
    """Matches that are decided, and rows that are told, a window after their events, one step at a time."""
    rows: list[Row] = [
        {
            "event_id": f"e{t}",
            "type": kind,
            "t_lo_ms": t,
            "t_hi_ms": h,
            "k": "p",
            "j": 1,
            "x": t,
            "y": 0.5,
            "s": f"n{t}",
        }
        for t, h, kind in [(1, 1, "A"), (12, 18, "B"), (60, 60, "N")]
    ]
    first = "low" if lower else "A"
    if lower:
        lower = f"PATTERN {lower} WHERE {ANY} {{ [k] AND [j] }} WITHIN 9 RETURN a.x AS x, a.y AS y, a.s AS s"
    if "OPEN" in window:
        window = f"OPEN ON type = '{first}'"
    values = "a.x AS ax, b.x AS bx, b.y AS yy, b.s AS ss, a.s AS sa, a.j AS jj"
    query = f"PATTERN SEQ({first} a, B b, !C c) WHERE {ANY} {{ [k] }} WITHIN 20 {window} {clause} RETURN {values}"
    return Case(query, Clauses(onset="a"), rows, [row["t_hi_ms"] for row in rows], range(75), lower=lower)


@pytest.mark.parametrize(
    "clause",
    ["", "LIMIT 2", "OUTPUT TOP 2 BY CONFIDENCE", "OUTPUT SETS LIMIT 2", "OUTPUT NON_OVERLAPPING", "SELECT FIRST"],
)
@pytest.mark.parametrize("window", ["SLIDE 5", "OPEN"])
@pytest.mark.parametrize("lower", ["", "SEQ(A a, !C c)"])
def test_what_waits_to_be_told_is_shown(tmp_path: Path, lower: str, window: str, clause: str) -> None:
    """Rows wait for those before them: what they show is kept until then."""
    assert check(waiting_case(lower, window, clause), tmp_path) == 1
