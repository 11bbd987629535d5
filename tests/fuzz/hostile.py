"""What hostile cases cost: a query that is drawn like any other, over ten thousand events that fit it, in one step.

The goal (`benchmarks/engine/bounds.py` measures hand-made ones): it ends, or tells that its search was stopped, within
5 s of processor time and 1 GiB. Processor time depends on the machine: twice the goal, in two runs, is a finding. So is
a search that was stopped when next to no time had been spent: what it cost was taken for more than it is.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from benchmarks.engine.bounds import GOAL_MIB, GOAL_S, N_EVENTS
from benchmarks.measure import forget_peak, resident_mib
from engine import CompiledQuery, Engine, compile_query
from engine.errors import QueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from tests.engine.strategies import ANY, NEXT, PARTITION, SCHEMA, STRICT, QueryScope, queries
from tests.fuzz.drawing import FIELDS
from tests.fuzz.shrinking import smaller_queries

SECONDS, MIB = 2 * GOAL_S, GOAL_MIB
STOPPED_SECONDS, STOPPED_ROWS = 0.15, 10_000
"""Taking in the events takes some 0.1 s. A search is stopped after 0.35 s, one of four branches of a union after a
quarter of that (`engine.matching.work_account`); one that has told so many rows has done what it is there for."""
_MOST_MIB = 4 * GOAL_MIB
_MOST_SECONDS = int(4 * GOAL_S)
"""More the system does not give."""
_ENDED = (signal.SIGXCPU, signal.SIGKILL)
_PIPE = 60_000
"""What fits into a pipe."""
_FEW_EVENTS = 40
_READ = 1_000
"""Rows that are read: all of them would be most of the time."""
_FILE = "case.json"


@dataclass(frozen=True)
class Hostile:
    """A query and how its stream is made: `types` again and again, each event `width_ms` wide and, where `burst` of
    them are past, `step_ms` later; `values`: how x and y go on; `n_keys` keys take turns; `seed`: of all the rest."""

    text: str
    types: str
    values: str = "random"
    n_keys: int = 1
    step_ms: int = 10
    burst: int = 1
    width_ms: int = 0
    seed: int = 0

    def stream(self, n_events: int) -> EventBatch:
        """The first so many events."""
        return EventBatch.from_rows(list(islice(self._rows(), n_events)), SCHEMA)

    def end_ms(self, n_events: int) -> int:
        """Later than all of them."""
        return (n_events // self.burst + 1) * self.step_ms + self.width_ms + 1

    def _rows(self) -> Iterator[dict[str, Any]]:
        chance = random.Random(self.seed)
        at = 0
        while True:
            x = {"up": at, "down": -at, "few": chance.randrange(3), "one": 1}.get(self.values, chance.randrange(9_999))
            lo_ms = at // self.burst * self.step_ms
            values = {"k": f"k{at % self.n_keys}", "j": 1, "x": x, "y": x / 2, "s": chance.choice(("ok", "bad"))}
            event_type = self.types[at % len(self.types)]
            known = SCHEMA.types[event_type]
            yield {
                "event_id": f"e{chance.randrange(1_000_000)}-{at}",
                "type": event_type,
                "t_lo_ms": lo_ms,
                "t_hi_ms": lo_ms + chance.choice((self.width_ms, self.width_ms // 2)),
                "source_seq": at,
                **{name: value for name, value in values.items() if name in known},
            }
            at += 1

    def save(self, folder: Path) -> None:
        """Write it, and its query by itself."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "q1.cep").write_text(self.text.rstrip() + "\n", encoding="utf-8")
        (folder / _FILE).write_text(json.dumps({"hostile": asdict(self)}, indent=1) + "\n", encoding="utf-8")

    def smaller(self, seconds: float) -> Hostile:
        """The simplest query found within this time that costs too much over the same stream."""
        end = time.monotonic() + seconds
        smaller: Hostile | None = self
        found = self
        while smaller is not None:
            found = smaller
            others = (replace(found, text=text) for text in smaller_queries(parse(found.text)) if text != found.text)
            smaller = next((other for other in others if time.monotonic() < end and over(cost_of(other))), None)
        return found

    def __str__(self) -> str:
        emitted = {name: value for name, value in asdict(self).items() if name != "text"}
        return f"{self.text}\n{N_EVENTS} events: {emitted}"


@dataclass(frozen=True)
class Cost:
    """What a case took: processor seconds, peak of memory beyond what was resident before, MiB, rows; whether anything
    was left out, and whether a search over precise events was stopped."""

    seconds: float
    mib: float
    n_rows: int
    is_cut: bool
    is_stopped: bool = False

    def __str__(self) -> str:
        emitted = ", cut" if self.is_cut else ""
        return f"{self.seconds:.1f} s of processor time, {self.mib:.0f} MiB, {self.n_rows} rows{emitted}"


def over(cost: Cost | str | None) -> str | None:
    """Which limit it is over, or how it ended where that was not its end."""
    if isinstance(cost, str):
        return cost.strip().rsplit("\n", 1)[-1]
    if cost is None:
        return None
    if cost.seconds > SECONDS:
        return "processor time"
    if cost.mib > MIB:
        return "memory"
    is_early = cost.is_stopped and cost.seconds < STOPPED_SECONDS and cost.n_rows < STOPPED_ROWS
    return "stopped early" if is_early else None


def load_hostile(folder: Path) -> Hostile | None:
    """What `save` wrote; None for a case of another kind."""
    emitted = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    return Hostile(**emitted["hostile"]) if "hostile" in emitted else None


def cost_of(hostile: Hostile) -> Cost | str | None:
    """What it takes, kernels warm, in a process of its own that ends without trace; why, where that did not come to its
    end. None for a text that says no query, or one that is refused."""
    with suppress(QueryError):
        query = compile_query(hostile.text, SCHEMA, name="q1")
        Engine([query], SCHEMA)
        few = Engine([query], SCHEMA)
        for rows in (few.process(hostile.stream(_FEW_EVENTS), hostile.end_ms(_FEW_EVENTS)), few.finish()):
            list(rows)
        return _in_own_process(query, hostile)
    return None


def _in_own_process(query: CompiledQuery, hostile: Hostile) -> Cost | str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MIB << 20, _MOST_MIB << 20))
            resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
            try:
                emitted = json.dumps(_measured(query, hostile))
            except Exception:  # noqa: BLE001  # told as a finding
                emitted = json.dumps(traceback.format_exc())
            os.write(writing, emitted.encode()[-_PIPE:])
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        emitted = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if status:
        return f"no end after {_MOST_SECONDS} s" if os.WTERMSIG(status) in _ENDED else f"ended with status {status}"
    answer = json.loads(emitted)
    return answer if isinstance(answer, str) else Cost(*answer)


def _measured(query: CompiledQuery, hostile: Hostile) -> tuple[float, float, int, bool, bool]:
    """The fields of `Cost`."""
    events, engine = hostile.stream(N_EVENTS), Engine([query], SCHEMA)
    forget_peak()
    before_mib = resident_mib()  # a process that has done much else before it forked has much
    started = time.process_time()
    n_rows, is_cut = 0, False
    for rows in (engine.process(events, hostile.end_ms(N_EVENTS)), engine.finish()):
        n_rows += len(rows)
        is_cut |= any(row.capped or not row.count_exact for row in [*rows[:_READ], *rows[-1:]])
    seconds = time.process_time() - started
    is_stopped = engine.statistics["q1"].n_unfinished > 0
    # One confidence may be known to cost more than there is, before anything is done for it.
    is_stopped_here = is_stopped and not hostile.width_ms
    return seconds, resident_mib(peak=True) - before_mib, n_rows, is_cut or is_stopped, is_stopped_here


# ---------------------------------------------------------------------- drawn


@st.composite
def hostile_cases(draw: st.DrawFn, scope: QueryScope, widths_ms: tuple[int, ...] = (0,)) -> Hostile:
    """A query of this scope in a long window, and a stream in which its types come again and again."""
    query = parse(draw(queries(scope)))
    keys = (1, 1, 1, 3, 500)
    if query.within_events is not None:
        keys = (1, 3)  # docs/performance.md says what hundreds cost, of which each has its copies of broadcast events
        query = replace(query, within_events=draw(st.sampled_from((20, 1_000, 10_000))))
    else:
        query = replace(query, within_ms=draw(st.sampled_from((3_600_000, 3_600_000, 10_000, 1_000))))
    if query.slide_ms is not None:
        query = replace(query, slide_ms=draw(st.sampled_from((10, 1_000, 60_000))))
    known = [part.event_type for part, _ in ast.components(query.pattern) if part.event_type in SCHEMA.types]
    runs = draw(st.lists(st.tuples(st.sampled_from(known), st.sampled_from((1, 1, 2, 5, 98))), min_size=1, max_size=5))
    if draw(st.booleans()):  # all that the pattern names, in its order
        runs = [(name, draw(st.sampled_from((1, 1, 2, 30)))) for name in known]
    return Hostile(
        text=print_query(query),
        types="".join(name * times for name, times in runs),
        values=draw(st.sampled_from(("random", "random", "up", "down", "few", "one"))),
        n_keys=draw(st.sampled_from(keys)),
        step_ms=draw(st.sampled_from((10, 10, 1, 1_000))),
        burst=draw(st.sampled_from((1, 1, 1, 50, 10_000))),
        width_ms=draw(st.sampled_from(widths_ms)),
        seed=draw(st.integers(0, 2**16)),
    )


_WIDTHS_MS = (25, 25, 400, 20_000)
_EVERYTHING = FIELDS["everything"].query
_IMPRECISE = FIELDS["everything, imprecise"].query

HOSTILE: Mapping[str, st.SearchStrategy[Hostile]] = {
    "hostile": hostile_cases(replace(_EVERYTHING, strategies=(ANY,))),
    "hostile lists": hostile_cases(replace(FIELDS["output"].query, strategies=(ANY,))),
    "hostile runs": hostile_cases(replace(_EVERYTHING, strategies=(NEXT, NEXT, PARTITION, STRICT))),
    "hostile, imprecise": hostile_cases(_IMPRECISE, _WIDTHS_MS),
    "hostile lists, imprecise": hostile_cases(FIELDS["output, imprecise"].query, _WIDTHS_MS),
}
"""Looked at in turn with the fields of small cases."""


__all__ = ["HOSTILE", "Cost", "Hostile", "cost_of", "load_hostile", "over"]
