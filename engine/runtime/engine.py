"""The engine: many queries over one stream behind one watermark."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.admission import NONE_REFUSED, Aside, Refusal, Refused, RefusedEvent, admit
from engine.compiled.fitting import fitting_events
from engine.compiled.query import CompiledQuery
from engine.compiled.sharing import trend_sharing
from engine.errors import EngineError, QueryError, StateError
from engine.events import FOREVER_MS, EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import RowSink, joined_rows
from engine.matching.protocol import Limits, Runtime, SharesEvents, SharesIntake, TakesSink
from engine.matching.quiet import QuietSteps
from engine.parallel.by_time import is_divided
from engine.parallel.workers import LEAST_EVENTS, Workers
from engine.plan.trends.shared import Shared
from engine.runtime.cascade import Feed, in_order, match_events, with_producers
from engine.runtime.factory import make_runtime
from engine.runtime.row_quota import PartQuota, RowQuota
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.values import with_own_memory

if TYPE_CHECKING:
    from engine.baselines import BaselineKind
    from engine.runtime.shedding.control import OverloadControl

STATE_VERSION = 2
"""Version 1 has codes for all strings that were ever seen, without gaps."""
_FEED = "feed"
_QUOTA = "quota"
_OVERLOAD = "overload"


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """What one query has done so far.

    `n_rejected`: events that its strategy cannot evaluate (imprecise ones). `n_too_long`: events that it left out since
    their interval is longer than its window. `n_unfinished`: searches that the work
    budget stopped: matches may be missing. `n_limited`: windows of the query's own in which
    LIMIT left rows out; 1 where it has none and LIMIT did. `is_full`: no row will be told any more, for LIMIT has been
    reached and there are more.
    """

    n_events: int = 0
    n_rows: int = 0
    n_kept: int = 0
    n_rejected: int = 0
    n_too_long: int = 0
    n_unfinished: int = 0
    n_limited: int = 0
    is_full: bool = False
    seconds: float = 0.0


@dataclass(slots=True)
class _Counted:
    n_events: int = 0
    n_rows: int = 0
    n_too_long: int = 0
    seconds: float = 0.0


class Engine:
    """Runs queries over a stream that arrives in any order and is released by a watermark.

    `process` buffers what the watermark has not passed yet. Queries that use the matches of others come after these,
    with a watermark of their own (see `engine.runtime.cascade`); rows of a query that is there for others alone
    (`CompiledQuery.is_silent`) are not returned: `take_silent` has them. Events before an earlier watermark are late:
    counted in `n_late` and handed out by `take_late`. Events that cannot take part (see `engine.admission.admit`; for
    one query: longer than its window) are left out: counted in `n_refused` and `QueryStatistics.n_too_long`, and handed
    out by `take_refused`.

    A query that turns out, by its events, to be one that its runtime does not evaluate makes `process` raise.
    With `on_failure` it does not stop the others: the callback gets the query's name and the error, and the query
    starts again with the next events, without what it had kept.

    `threads`: so many evaluate a batch side by side: slices of time where it is long against the windows, else
    partitions of keyed queries, and whole queries of other kinds. A query that was saved while it was divided by key
    keeps the number of shards.

    `sink`: gets the rows in blocks as they are made, in place of the caller of `process`. Matches of precise events
    that skip_till_any_match selects independently (`explain` says which do) are then listed in blocks of bounded size
    whatever their number; what other queries return at once is bounded by `limits.max_rows` as ever.

    `generated`: of no effect any more; accepted with a warning until the next release.

    LIMIT and TOP k count over all steps (see `engine.runtime.row_quota`). `quotas`: by name those of queries of which
    this engine has a part of the stream.

    `baseline`: evaluate by one of the papers' baselines instead, to compare with them.

    `overload`: holds a latency bound (see `engine.runtime.shedding.control`): it cuts what is released into steps, and
    before them drops partial matches where the bound would be exceeded. Without one nothing is ever dropped.
    """

    def __init__(
        self,
        queries: Sequence[CompiledQuery],
        schema: EventSchema,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.perf_counter,
        on_failure: Callable[[str, QueryError], None] | None = None,
        baseline: BaselineKind | None = None,
        threads: int = 1,
        sink: RowSink | None = None,
        generated: object = None,
        quotas: Mapping[str, PartQuota] | None = None,
        overload: Callable[[Mapping[str, CompiledQuery]], OverloadControl] | None = None,
    ) -> None:
        if generated is not None:
            warnings.warn("Engine(generated=...) has no effect any more and will go", DeprecationWarning, stacklevel=2)
        names = [query.name for query in queries]
        if len(set(names)) != len(names):
            raise EngineError(f"two queries have one name: {sorted({n for n in names if names.count(n) > 1})}")
        self.schema = schema
        self.queries = tuple(queries)
        self._by_name = {query.name: query for query in queries}
        self._in_order = in_order(queries)
        self._feeds = {query.name: Feed(query) for query in queries if query.producers}
        self.watermark_ms = -FOREVER_MS
        self.n_late = 0
        self._limits = limits or Limits()
        self._clock = clock
        self._on_failure = on_failure
        self._baseline = baseline
        self._interner = Interner()
        self._sink = sink
        self._used = {producer.name for query in queries for producer in query.producers}
        self._workers = Workers(threads, len(queries))
        self._is_single = threads == 1
        self._part_quotas = dict(quotas or {})
        self._quotas = self._new_quotas()
        self._runtimes = {query.name: self._runtime(query) for query in queries}
        self._untouched = set(self._runtimes)
        """Queries that no event has come for: their runtimes are as they were made."""
        self._quiet = {query.name: QuietSteps(query.within_ms) for query in queries}
        self._untouched_state: dict[str, dict[str, pa.Table]] = {}
        self._share_events()
        self._counted = {query.name: _Counted() for query in queries}
        self._waiting = EventBatch.empty()
        self._comes_whole = True
        """Whether the last batch was released as it came: then the next one may be too."""
        self._late: list[EventBatch] = []
        self._silent: Sequence[MatchRow] = ()
        self._aside = Aside()
        self.overload = None if overload is None else overload(self._by_name)

    def process(
        self, batch: EventBatch, watermark_ms: int, *, released_s: Sequence[float] | float | None = None
    ) -> Sequence[MatchRow]:
        """Take in events in any order; return the rows that are decided at `watermark_ms`, query by query.

        Raises EventError for a batch that breaks the schema; nothing of it is taken in then. A watermark that is lower
        than an earlier one counts as that one.

        `released_s`: with an overload control, when the events that are evaluated now could have been, by its clock:
        ascending times in stream order, or one for all; None: as the control knows.
        """
        batch.validate()
        ahead = self._workers.divide_ahead(self._fed_all(), batch, self._interner) if self._comes_whole else None
        watermark_ms = max(watermark_ms, self.watermark_ms)
        on_time = self._without_late(self._admitted(batch))
        released, self._waiting = EventBatch.concat([self._waiting, on_time]).parted(watermark_ms)
        self.watermark_ms = watermark_ms
        self._comes_whole = released.table is batch.table
        if self.overload is None:
            stream = ahead if ahead is not None and self._comes_whole else StreamColumns(released, self._interner)
            rows = self._step(stream, watermark_ms)
        else:
            rows = self._steps_within_bound(self.overload, released, released_s)
        returned = [rows[query.name] for query in self.queries if not query.is_silent]
        self._silent = joined_rows([rows[query.name] for query in self.queries if query.is_silent])
        if self._sink is None:
            return joined_rows(returned)
        for part in returned:
            self._sink.hand_over(part)
        return joined_rows([])

    def finish(self) -> Sequence[MatchRow]:
        """The stream has ended: what waits is decided."""
        return self.process(EventBatch.empty(), FOREVER_MS)

    def take_silent(self) -> Sequence[MatchRow]:
        """The rows of queries that are there for others alone, decided by the last `process`: what others bind."""
        rows, self._silent = self._silent, ()
        return rows

    def take_late(self) -> EventBatch:
        """The late events since the last call."""
        late, self._late = EventBatch.concat(self._late), []
        return late

    def take_refused(self) -> list[RefusedEvent]:
        """The refused events since the last call, the first `engine.admission.MAX_KEPT_ASIDE` of them."""
        return self._aside.take()

    @property
    def behind_ms(self) -> Mapping[str, int]:
        """By query, how far before the watermark (ms) the last event of a row may begin that is still to be told: rows
        wait for negations, intervals, other rows, and what LIMIT, TOP and producers keep back. Those that do not wait
        are left out."""
        if abs(self.watermark_ms) >= FOREVER_MS:
            return {}
        behind = {name: self.watermark_ms - self._output_watermark_ms(name) for name in self._runtimes}
        return {name: by_ms for name, by_ms in behind.items() if by_ms > 0}

    @property
    def n_refused(self) -> Mapping[Refusal, int]:
        """Refused events by reason."""
        return dict(self._aside.counts)

    @property
    def n_waiting(self) -> int:
        """Events that wait for the watermark."""
        return len(self._waiting)

    @property
    def statistics(self) -> Mapping[str, QueryStatistics]:
        """Per query, since this engine was made."""
        return {
            name: QueryStatistics(
                n_events=counted.n_events,
                n_rows=counted.n_rows,
                seconds=counted.seconds,
                n_kept=self._runtimes[name].n_rows,
                n_rejected=self._runtimes[name].n_rejected,
                n_too_long=counted.n_too_long,
                n_unfinished=self._runtimes[name].n_unfinished,
                n_limited=self._quotas[name].n_limited if name in self._quotas else 0,
                is_full=name in self._quotas and self._quotas[name].is_full,
            )
            for name, counted in self._counted.items()
        }

    @property
    def shared(self) -> Mapping[str, Shared]:
        """What queries about trends share, as far as they have the same past; those that share nothing are left out."""
        return trend_sharing(self.queries)

    def save(self) -> dict[str, pa.Table]:
        """The whole state as Arrow tables; "QUERY/part" for the parts of a query. They stay what they are while the
        engine goes on."""
        meta = {
            "version": str(STATE_VERSION),
            "watermark_ms": str(self.watermark_ms),
            "n_late": str(self.n_late),
            "n_refused": json.dumps(self._aside.counts),
            "untouched": json.dumps(sorted(self._untouched)),
            **{f"hash/{query.name}": query.hash for query in self.queries},
        }
        state = {
            "waiting": self._waiting.table,
        }
        for name in self._runtimes:
            state.update(self._saved(name))
        for name, feed in self._feeds.items():
            state[f"{name}/{_FEED}"] = feed.save()
        for name, quota in self._quotas.items():
            state[f"{name}/{_QUOTA}"] = with_own_memory(quota.save())
        if self._interner.is_to_be_looked_at:
            self._interner.keep(state.values())
        if self.overload is not None:
            state[_OVERLOAD] = self.overload.save()
        texts = self._interner.save()
        return {**state, "engine": texts.replace_schema_metadata({**meta, **(texts.schema.metadata or {})})}

    def restore(self, state: Mapping[str, pa.Table]) -> frozenset[str]:
        """Take over what `save` returned; returns the names of the queries for which it holds nothing.

        A query of the same name and hash goes on exactly where it stood. Queries that are new, or whose meaning
        differs, begin without a past: see `warm_up`. What is saved of queries that this engine does not have is left
        out. Raises StateError when the version differs or a part is damaged; the engine is then unusable, make another.
        """
        meta = _checked_meta(state)
        # Saved numbers are codes of these texts, so they come before the constants of any plan.
        self._interner = Interner.restored(state["engine"])
        self._runtimes = {query.name: self._runtime(query) for query in self.queries}
        self._feeds = {name: Feed(query) for name, query in self._by_name.items() if query.producers}
        self._quotas = self._new_quotas()
        self._waiting = EventBatch(state["waiting"])
        self.watermark_ms = int(meta["watermark_ms"])
        self.n_late = int(meta["n_late"])
        self._aside = Aside(json.loads(meta.get("n_refused", "{}")))  # states of before have no such events
        unknown = {query.name for query in self.queries if meta.get(f"hash/{query.name}") != query.hash}
        for name in self._runtimes.keys() - unknown:
            parts = {k.removeprefix(f"{name}/"): table for k, table in state.items() if k.startswith(f"{name}/")}
            self._runtimes[name] = self._runtime(self._by_name[name], divided=is_divided(parts))
            if name in self._feeds:
                if _FEED not in parts:
                    raise StateError(f"saved state of {name} lacks its feed")
                self._feeds[name].restore(parts.pop(_FEED))
            if name in self._quotas and _QUOTA in parts:  # states of before counted in each step alone
                self._quotas[name].restore(parts.pop(_QUOTA))
            self._runtimes[name].restore(parts)
        untouched = frozenset(json.loads(meta.get("untouched", "[]")))  # states of before do not know
        self._untouched = {name for name in self._runtimes if name in unknown or name in untouched}
        self._untouched_state.clear()
        self._share_events()
        if self.overload is not None and _OVERLOAD in state:
            hashes = {query.name: query.hash for query in self.queries}
            for reason in self.overload.restore(state[_OVERLOAD], hashes):
                warnings.warn(reason, RuntimeWarning, stacklevel=2)
        return frozenset(unknown)

    def warm_up(self, names: Collection[str], events: EventBatch) -> None:
        """Let queries begin again with events that the watermark has passed, in any order, as if they had run then.

        What they find in them was decided before and is not told; their next rows are those of an engine that got
        `events` first and then what comes. Events that the watermark has not passed are still to come and left out.
        Raises EngineError for a name that is no query, EventError for a batch that breaks the schema.
        """
        if unknown := set(names) - self._runtimes.keys():
            raise EngineError(f"no query is named {', '.join(sorted(unknown))}")
        events.validate()
        events, _ = admit(events)
        passed = events.where(events.t_lo_ms < self.watermark_ms).sorted()
        # The matches that a query uses are found again by its producers; those that are not named go on as they were.
        involved = with_producers(names, self.queries)
        others = {
            name: (self._runtimes[name], self._feeds.get(name), self._quotas.get(name), name in self._untouched)
            for name in involved - set(names)
        }
        for name in involved:
            self._begin_again(self._by_name[name])
        again = [query for query in self._in_order if query.name in involved]
        self._cascade(
            again,
            StreamColumns(passed, self._interner),
            self.watermark_ms,
            lambda query, stream, step_ms: self._within_quota(
                query, self._rows(query, self._fitting(query, stream)[0], step_ms)[0], stream, step_ms
            ),
        )
        for name, (runtime, feed, quota, is_untouched) in others.items():
            self._runtimes[name] = runtime
            (self._untouched.add if is_untouched else self._untouched.discard)(name)
            if feed is not None:
                self._feeds[name] = feed
            if quota is not None:
                self._quotas[name] = quota
        self._share_events()

    # -------------------------------------------------------------- internals

    def _step(self, stream: StreamColumns, watermark_ms: int) -> dict[str, Sequence[MatchRow]]:
        """Evaluate events of which none comes before those given earlier; the rows of each query."""
        self._part_shared(stream)
        at_once = {
            name: runtime
            for name, runtime in self._runtimes.items()
            if name not in self._feeds
            and self._fits_all(name, stream)
            and not self._is_quiet(name, stream, watermark_ms)
        }
        self._workers.begin(at_once, stream, watermark_ms, self._clock)
        return self._cascade(self._in_order, stream, watermark_ms, self._advance)

    def _steps_within_bound(
        self, control: OverloadControl, released: EventBatch, released_s: Sequence[float] | float | None
    ) -> dict[str, Sequence[MatchRow]]:
        parts: dict[str, list[Sequence[MatchRow]]] = {query.name: [] for query in self.queries}
        now_s = control.released_s(released) if released_s is None else released_s
        for cut in control.steps(released, self.watermark_ms, now_s, lambda: self._runtimes):
            self.watermark_ms = cut.watermark_ms  # the last one ends where the batch does
            for name, rows in self._step(StreamColumns(cut.events, self._interner), cut.watermark_ms).items():
                later_ms = self._output_watermark_ms(name)
                parts[name].append(control.emitted(self._by_name[name], rows, cut.watermark_ms, later_ms))
        return {name: some[0] if len(some) == 1 else joined_rows(some) for name, some in parts.items()}

    def _runtime(self, query: CompiledQuery, *, divided: bool = False) -> Runtime:
        def make() -> Runtime:
            return make_runtime(query, self._interner, self._limits, self._baseline)

        runtime = self._workers.divided(query, make) if divided else self._workers.runtime(query, make)
        # Rows that another query needs, that threads find side by side, or of which a quota takes a few, go through the
        # engine.
        if isinstance(runtime, TakesSink) and self._is_single and not query.is_silent:
            is_passed_on = query.name in self._used or query.name in self._quotas
            runtime.sink = None if is_passed_on else self._sink
        return runtime

    def _share_events(self) -> None:
        """Let the queries that keep the same events keep them together, and those that take in the same do that once,
        where they are given the same batches."""
        by_meaning: dict[Hashable, list[Any]] = {}
        for name, runtime in self._runtimes.items():
            if name in self._feeds or not isinstance(runtime, SharesEvents) or runtime.keeps() is None:
                continue
            alike = by_meaning.setdefault(runtime.keeps(), [])
            if not any(runtime.share(other) for other in alike):
                alike.append(runtime)
        takers: dict[Hashable, list[Any]] = {}
        for name, runtime in self._runtimes.items():
            if name not in self._feeds and isinstance(runtime, SharesIntake):
                takers.setdefault(runtime.takes(), []).append(runtime)
        for first, *others in takers.values():
            if others:
                first.take_with(others)

    def _new_quotas(self) -> dict[str, RowQuota]:
        """Of the queries with LIMIT or TOP."""
        quotas = {query.name: RowQuota.of(query, self._part_quotas.get(query.name)) for query in self.queries}
        return {name: quota for name, quota in quotas.items() if quota is not None}

    def _saved(self, name: str) -> dict[str, pa.Table]:
        """The state of one runtime; of one that no event has come for it is made once."""
        found = self._untouched_state.get(name)
        if found is None:
            saved = self._runtimes[name].save()
            found = {f"{name}/{part}": with_own_memory(table) for part, table in saved.items()}
            if name in self._untouched:
                self._untouched_state[name] = found
        return found

    def _is_quiet(self, name: str, stream: StreamColumns, watermark_ms: int) -> bool:
        """Whether a step can be left out. Large batches are divided before this is known."""
        if len(stream) >= LEAST_EVENTS:
            return False
        if stream.n_of_types(self._by_name[name].own_read_types):
            return False
        return name in self._untouched or self._quiet[name].may_leave_out(self._runtimes[name], watermark_ms)

    def _begin_again(self, query: CompiledQuery) -> None:
        self._runtimes[query.name] = self._runtime(query)
        self._untouched.add(query.name)
        if (quota := RowQuota.of(query, self._part_quotas.get(query.name))) is not None:
            self._quotas[query.name] = quota
        if query.producers:
            self._feeds[query.name] = Feed(query)

    def _cascade(
        self,
        queries: Sequence[CompiledQuery],
        stream: StreamColumns,
        watermark_ms: int,
        advance: Callable[[CompiledQuery, StreamColumns, int], Sequence[MatchRow]],
    ) -> dict[str, Sequence[MatchRow]]:
        """The rows of each query, producers first; `stream` has the events between two watermarks, in order."""
        rows: dict[str, Sequence[MatchRow]] = {}
        for query in queries:
            if not query.producers:
                rows[query.name] = advance(query, stream, watermark_ms)
                continue
            feed = self._feeds[query.name]
            feed.put(stream.batch)
            for producer in query.producers:
                feed.put(match_events(producer, rows[producer.name], query))
            own = feed.release(min(watermark_ms, *(self._output_watermark_ms(p.name) for p in query.producers)))
            fed = StreamColumns(own, self._interner)
            rows[query.name] = advance(query, fed, feed.watermark_ms)
            fed.parts.clear()
        stream.made.clear()
        stream.parts.clear()  # they refer to the stream, whose memory the next batch can have at once
        return rows

    def _output_watermark_ms(self, name: str) -> int:
        """No later match of this query has a last event before it."""
        feed = self._feeds.get(name)
        own_ms = self._runtimes[name].output_watermark_ms(self.watermark_ms if feed is None else feed.watermark_ms)
        quota = self._quotas.get(name)
        return own_ms if quota is None else min(own_ms, quota.buffered_from_ms(own_ms))

    def _within_quota(
        self, query: CompiledQuery, rows: Sequence[MatchRow], stream: StreamColumns, watermark_ms: int
    ) -> Sequence[MatchRow]:
        """Those of the rows of all steps that LIMIT or TOP lets be told now."""
        quota = self._quotas.get(query.name)
        if quota is None:
            return rows
        own_ms = self._runtimes[query.name].output_watermark_ms(watermark_ms)
        return quota.take(rows, stream.batch, own_ms, watermark_ms)

    def _admitted(self, batch: EventBatch) -> EventBatch:
        admitted, refused = admit(batch)
        if refused.n_events:
            self._aside.add(refused)
        return admitted

    def _fed_all(self) -> list[Runtime]:
        """The runtimes of the queries that get the events of the stream alone."""
        return [runtime for name, runtime in self._runtimes.items() if name not in self._feeds]

    def _fits_all(self, name: str, stream: StreamColumns) -> bool:
        """Whether no event can be longer than the window of the query."""
        longest_ms = self._by_name[name].longest_interval_ms
        return longest_ms is None or stream.longest_ms <= longest_ms

    def _fitting(self, query: CompiledQuery, stream: StreamColumns) -> tuple[StreamColumns, Refused]:
        """The events of a batch without those that are too long for the query, and these."""
        if self._fits_all(query.name, stream):
            return stream, NONE_REFUSED
        fitting, refused = fitting_events(query.resolved, stream.batch)
        return (StreamColumns(fitting, self._interner) if refused.n_events else stream), refused

    def _part_shared(self, stream: StreamColumns) -> None:
        """Before a batch of which a query gets only a part: it keeps its events for itself from now on."""
        for name, runtime in self._runtimes.items():
            if self._fits_all(name, stream) or not isinstance(runtime, SharesEvents) or not runtime.is_shared:
                continue
            query = self._by_name[name]
            if self._fitting(query, stream)[1].n_events:
                alone = self._runtimes[name] = self._runtime(query)
                alone.restore(runtime.save())

    def _without_late(self, batch: EventBatch) -> EventBatch:
        if not len(batch) or int(batch.t_lo_ms[0] if batch.is_ascending else batch.t_lo_ms.min()) >= self.watermark_ms:
            return batch
        late = batch.t_lo_ms < self.watermark_ms
        self.n_late += int(late.sum())
        self._late.append(batch.where(late))
        return batch.where(~late)

    def _advance(self, query: CompiledQuery, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        started = self._clock()
        n_before = 0 if self._sink is None else self._sink.n_rows
        fitting, refused = self._fitting(query, stream)
        rows, seconds_before = self._rows(query, fitting, watermark_ms)
        rows = self._within_quota(query, rows, stream, watermark_ms)
        n_sunk = 0 if self._sink is None else self._sink.n_rows - n_before
        counted = self._counted[query.name]
        counted.n_events += stream.n_of_types(query.types)
        counted.n_rows += len(rows) + n_sunk
        if refused.n_events:
            counted.n_too_long += refused.n_events
            self._aside.add(refused)
        counted.seconds += seconds_before + self._clock() - started
        return rows

    def _rows(self, query: CompiledQuery, stream: StreamColumns, watermark_ms: int) -> tuple[Sequence[MatchRow], float]:
        """The rows, and the seconds that another thread has spent on them."""
        if not self._workers.has_begun(query.name) and self._is_quiet(query.name, stream, watermark_ms):
            return [], 0.0
        self._quiet[query.name].advanced(watermark_ms)
        self._untouched.discard(query.name)
        self._untouched_state.pop(query.name, None)
        try:
            return self._workers.advance(query.name, self._runtimes[query.name], stream, watermark_ms, self._clock)
        except QueryError as error:
            error.name = query.name
            if self._on_failure is None:
                raise
            self._on_failure(query.name, error)
            self._runtimes[query.name] = self._runtime(query)
            self._untouched.add(query.name)
            return [], 0.0


def _checked_meta(state: Mapping[str, pa.Table]) -> dict[str, str]:
    """The metadata of a saved state; raises StateError when it is not one of this version."""
    if not {"engine", "waiting"} <= set(state):
        raise StateError(f"saved state has no engine part; found {sorted(state)}")
    meta = {k.decode(): v.decode() for k, v in (state["engine"].schema.metadata or {}).items()}
    if meta.get("version") not in {str(version) for version in range(1, STATE_VERSION + 1)}:
        raise StateError(f"saved state has version {meta.get('version')}, expected {STATE_VERSION} or an earlier one")
    return meta
