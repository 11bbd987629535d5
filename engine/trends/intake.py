"""Events of a batch as the graph takes them: which states read each, and in which partitions it is.

An event that has all of the key is in one partition. One that has a part of it is in every partition that agrees with
it, also in those that become known later: such events are kept as long as a window has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Float64Array, Int64Array
from engine.kernels.columns.partitions import order_by_partition
from engine.kernels.programs.opcodes import COLUMN, MAX_STACK, TRUE
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.upkeep import derive
from engine.language import ast
from engine.plan.exact_times import exact_times
from engine.plan.trends.model import TrendPlan, VariableReads
from engine.plan.trends.sharing import intake_meaning
from engine.stream.columns import StreamColumns
from engine.stream.key_table import KeyTable
from engine.trends.broadcast import Agreement, Part, slices
from engine.trends.state import FORMAT
from engine.trends.template_arrays import TrendTables, saved_numbers

EVENTS = 2**16
"""Events of one batch, and those of the same order, where no edge is looked at: what is made of them is still in the
cache when they are read."""

PAIRS = 2**18
"""Pairs of an event and a partition in one batch, unless a single event has more; each takes some 50 bytes."""


@dataclass(frozen=True)
class Candidates:
    """Events that some state reads, in order. columns (n_columns, n), derived (n_derived, n), key (n_components, n);
    states (n_classes, n): a bit for each state that reads the event, by the parts of the key that it has. ids (1, n):
    the ids of the events, (0, n) where nobody asks for them. t_ms to hi_ms: when they were, both included; clock:
    codes, -1 for a clock of its own."""

    t_ms: Int64Array
    hi_ms: Int64Array
    clock: Int64Array
    order: Int64Array
    columns: Float64Array
    derived: Float64Array
    key: Float64Array
    states: Int64Array
    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.t_ms)

    def where(self, mask: BoolArray) -> Candidates:
        """Those whose mask (n,) is True, row by row in memory: kernels are compiled for that."""
        return Candidates(*(np.compress(mask, getattr(self, each.name), axis=-1) for each in fields(self)))

    def after(self, earlier: Candidates) -> Candidates:
        """Others, then these."""
        pairs = ((getattr(earlier, each.name), getattr(self, each.name)) for each in fields(self))
        return Candidates(*(np.concatenate(pair, axis=-1) for pair in pairs))


@dataclass(frozen=True)
class _Class:
    """The variables that have the same part of the key: numbers of its components, in order. `breaking`: types whose
    events have it, too, and end what goes on in their partitions."""

    components: tuple[int, ...]
    states: tuple[int, ...]
    breaking: tuple[str, ...]


@dataclass(frozen=True)
class Coming:
    """A batch; `ids` of its events where these are asked for; of all rows, not only of its events, `hi_ms` and `clock`.
    `is_precise`: no time is an interval, as far as that is known without a look at each."""

    batch: ta.Batch
    ids: np.ndarray
    hi_ms: Int64Array
    clock: Int64Array
    is_precise: bool


class _Placed(NamedTuple):
    """Events by partition, each partition's in order, (n,): rows among the candidates, partitions, states."""

    rows: Int64Array
    partition: Int64Array
    states: Int64Array
    t_ms: Int64Array
    order: Int64Array


class TrendIntake:
    """What a query takes of its stream. `n_rejected`: events that it cannot take, so far."""

    def __init__(self, plan: TrendPlan, tables: TrendTables) -> None:
        self._plan = plan
        self._tables = tables
        parts: dict[tuple[int, ...], list[int]] = {}
        reads = {each.variable: each for each in plan.reads}
        for state, variable in enumerate(tables.variables):
            parts.setdefault(tuple(sorted(reads[variable].components)), []).append(state)
        breaking: dict[tuple[int, ...], list[str]] = {}
        for event_type, has in plan.breaking:
            breaking.setdefault(tuple(sorted(has)), []).append(event_type)
        self._classes = [
            _Class(components, tuple(parts.get(components, ())), tuple(breaking.get(components, ())))
            for components in dict.fromkeys((*parts, *breaking))
        ]
        self._whole = [len(each.components) == len(plan.components) for each in self._classes]
        self._reads = reads
        self._read_types = plan.types.union(event_type for event_type, _ in plan.breaking)
        self._types = sorted(self._read_types)
        self.n_seen = 0
        self.n_rejected = 0
        self.keys = KeyTable(len(plan.components))
        self._waiting = self._none()
        self._is_precise = True  # of the events at hand
        self.is_shared = False
        """Whether other queries of the stream take in the same: what is made of a batch is made once then."""
        self._meaning = (intake_meaning(plan), tables.derived, plan.programs.columns, plan.has_notice)
        self._made: Hashable = None  # what the events at hand are known by
        self._keys_known: tuple[int, bytes] | None = None

    def _none(self) -> Candidates:
        template = self._tables.template
        return Candidates(
            np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64),
            np.empty((len(self._plan.programs.columns), 0)),
            np.empty((int(template.sizes[ta.N_DERIVED]), 0)), np.empty((len(self._plan.components), 0)),
            np.empty((len(self._classes), 0), np.int64), np.empty((int(self._plan.has_notice), 0), object),
        )  # fmt: skip

    # ------------------------------------------------------------------ events

    def candidates(self, stream: StreamColumns, *, are_stored: bool = True) -> Candidates:
        """The events that a state reads.

        Left out, and counted, are those with an interval where their order matters to what is absent or to both trends
        of a pair, those whose distribution is not uniform, and those whose clock has an unknown offset. `are_held`:
        whether events with intervals came before that may overlap these.
        """
        first = self.n_seen
        self.n_seen += len(stream)
        rows, is_precise = stream.rows_of_types(self._read_types)
        self._is_precise = is_precise and not bool(np.any(self._waiting.hi_ms > self._waiting.t_ms))
        has_clocks = are_stored or not self._is_precise

        def make() -> tuple[Candidates, int]:
            return self._read(stream, rows, first, is_precise=is_precise, has_clocks=has_clocks)

        is_placed = self._plan.ties is ast.Ties.SOURCE or self._plan.counts_positions
        self._made = (self._meaning, first if is_placed else None, has_clocks)
        found, n_refused = stream.once(self._made, make) if self.is_shared else make()
        self.n_rejected += n_refused
        return found

    def _read(
        self, stream: StreamColumns, rows: Int64Array, first: int, *, is_precise: bool, has_clocks: bool
    ) -> tuple[Candidates, int]:
        """The events of these rows that a state reads, and how many cannot be taken; `first`: events before the
        batch."""
        plan = self._plan
        n_refused = 0
        refused: BoolArray = np.zeros(len(rows), np.bool_)
        if not is_precise:
            refused = self._refused(stream, rows)
            if plan.breaking:  # they end what goes on all the same, at their place in the stream
                n_refused = int(np.count_nonzero(refused & np.isin(rows, stream.rows_of_types(plan.types)[0])))
            else:
                n_refused = int(np.count_nonzero(refused))
                rows = rows[~refused]
        if not len(rows):
            return self._none(), n_refused
        is_all = len(rows) == len(stream)
        columns = self._columns(stream, plan.programs.columns, rows)
        key = self._columns(stream, [component.attribute for component in plan.components], rows)
        if any(plan.attribute_types.get(component.attribute) is AttributeType.FLOAT for component in plan.components):
            key = key + 0.0  # -0.0 is 0.0
        t_ms = np.ascontiguousarray(stream.t_lo_ms if is_all else stream.t_lo_ms[rows])
        hi_ms = t_ms if is_precise else np.ascontiguousarray(stream.t_hi_ms if is_all else stream.t_hi_ms[rows])
        if plan.breaking and not is_precise:
            t_ms = hi_ms = np.where(refused, t_ms, hi_ms)
        clock = stream.clocks_of(rows) if has_clocks else np.broadcast_to(np.int64(-1), len(rows))
        order = hi_ms if plan.ties is ast.Ties.STRICT else first + rows
        of_code = stream.type_numbers(self._types)
        types = of_code[0] if len(of_code) == 1 else stream.type_index(self._types, None if is_all else rows)
        complete = [is_all and stream.is_complete(component.attribute) for component in plan.components]
        states = self._states(types, columns, key, complete)
        if plan.breaking and not is_precise:
            states[:, refused] &= ta.BREAKS
        ids = np.empty((int(plan.has_notice), len(rows)), object)
        if plan.has_notice:
            ids[0] = stream.ids_of(rows).to_numpy(zero_copy_only=False)
        derived = self._evaluated([plan.derived[number] for number in self._tables.derived], columns)
        if plan.counts_positions:
            positions = (first + rows).astype(np.float64)
            derived = np.vstack([derived, positions, positions - 1])
        found = Candidates(t_ms, hi_ms, clock, order, columns, derived, key, states, ids)
        is_read: BoolArray = states[0] != 0 if len(states) == 1 else np.any(states, axis=0)
        return found if is_read.all() else found.where(is_read), n_refused

    def _refused(self, stream: StreamColumns, rows: Int64Array) -> BoolArray:
        """Which of these rows cannot be taken, (n,)."""
        is_interval: BoolArray = stream.t_lo_ms[rows] != stream.t_hi_ms[rows]
        if exact_times(self._plan.query) is not None:
            return is_interval
        refused: BoolArray = np.zeros(len(rows), np.bool_)
        if stream.skew_ms is not None:
            refused |= stream.skew_ms[rows] > 0
        if stream.weights is not None:
            refused |= stream.weights.is_valid().to_numpy()[rows]
        return is_interval & refused

    def _columns(self, stream: StreamColumns, names: Sequence[str], rows: Int64Array) -> Float64Array:
        """Attributes of these rows, (n_names, n); the stream's own array where it is one column with all rows."""
        is_all = len(rows) == len(stream)
        if is_all and len(names) == 1:
            return self._column(stream, names[0]).reshape(1, -1)
        columns = np.empty((len(names), len(rows)))
        for number, name in enumerate(names):
            column = self._column(stream, name)
            columns[number] = column if is_all else column[rows]
        return columns

    def _column(self, stream: StreamColumns, name: str) -> Float64Array:
        kind = AttributeType.INT if name == TIME_ATTRIBUTE else self._plan.attribute_types[name]
        return stream.column(name, kind)

    def _evaluated(self, programs: Sequence[int], columns: Float64Array) -> Float64Array:
        """The values of programs on single events, (n_programs, n)."""
        template = self._tables.template
        values = np.empty((len(programs), columns.shape[1]))
        calculated: list[int] = []
        for number, program in enumerate(programs):
            begin, end = template.bounds[program : program + 2].tolist()
            if end - begin == 1 and template.code[begin, 0] == COLUMN:  # a value as it is
                values[number] = columns[template.code[begin, 2]]
            else:
                calculated.append(number)
        if calculated:
            found = values if len(calculated) == len(programs) else np.empty((len(calculated), columns.shape[1]))
            derive(
                template.code, template.bounds, np.array(programs, np.int64)[calculated], template.constants, columns,
                np.zeros(3, np.int64), np.zeros(1), np.empty(MAX_STACK), found,
            )  # fmt: skip
            values[calculated] = found
        return values

    def _states(
        self, types: Int64Array | np.int64, columns: Float64Array, key: Float64Array, complete: Sequence[bool]
    ) -> Int64Array:
        """Which states read each event, by class. `types`: one where all events are of it; `complete`: of each
        component of the key, whether no event is known to lack it."""
        states = np.empty((len(self._classes), columns.shape[1]), np.int64)
        has = [None if is_complete else ~np.isnan(row) for is_complete, row in zip(complete, key, strict=True)]
        accepted: dict[str, BoolArray] = {}
        for number, each in enumerate(self._classes):
            of_type = np.zeros(len(self._types) + 1, np.int64)  # the last one: of another type
            own = [mask for component in each.components if (mask := has[component]) is not None]
            for state in each.states:
                reads = self._reads[self._tables.variables[state]]
                if not own and not reads.programs:
                    of_type[self._types.index(reads.event_type)] |= 1 << state
            for event_type in each.breaking:
                if not own:
                    of_type[self._types.index(event_type)] |= ta.BREAKS
            states[number] = of_type[types]
            for state in each.states:
                variable = self._tables.variables[state]
                reads = self._reads[variable]
                if own or reads.programs:
                    if variable not in accepted:
                        accepted[variable] = self._accepted(reads, types, columns, own)
                    states[number] |= accepted[variable].astype(np.int64) << state
            for event_type in each.breaking:
                if own:
                    breaks = np.logical_and.reduce(own) & (types == self._types.index(event_type))
                    states[number] |= np.where(breaks, ta.BREAKS, 0)
        return states

    def _accepted(
        self, reads: VariableReads, types: Int64Array | np.int64, columns: Float64Array, has: Sequence[BoolArray]
    ) -> BoolArray:
        """Which events a variable reads, (n,); `has`: which have each component of its key."""
        mask: BoolArray = np.full(columns.shape[1], types == self._types.index(reads.event_type))
        for each in has:
            mask &= each
        for program in self._evaluated(reads.programs, columns):
            mask &= program == TRUE
        return mask

    # -------------------------------------------------------------- partitions

    def batches(self, coming: Candidates, stream: StreamColumns, *, may_be_cut: bool = False) -> Iterator[Coming]:
        """The events by partition, in one batch, or in several where broadcast ones are in very many, or where many may
        be cut, each with the ids of its events where these are asked for; new keys get new numbers. Each must be taken
        in before the next one."""
        n_before = len(self.keys)
        if all(self._whole):
            for first, end in _spans(coming, EVENTS if may_be_cut and self._is_precise else len(coming)):
                placed = self._placed_alike(coming, first, end, stream)
                yield self._batch(coming, placed)
            return
        whole = np.zeros(len(coming), np.int64)
        for number, is_whole in enumerate(self._whole):
            if is_whole:
                whole |= coming.states[number]
        keyed = np.flatnonzero(whole)
        partition = self._partitions(coming.key[:, keyed])
        n_waiting = len(self._waiting)
        everything = coming.after(self._waiting)
        keyed = keyed + n_waiting
        n_known = np.zeros(len(everything), np.int64)
        n_known[keyed] = partition + 1
        n_known = np.maximum(np.maximum.accumulate(n_known), n_before)
        agreeing = self._agreeing(everything, n_known)
        n_pairs = np.zeros(len(everything), np.int64)
        n_pairs[keyed] = 1
        for _, each in agreeing:
            n_pairs += each.n_pairs()
        n_pairs[:n_waiting] = 0  # they were given to the partitions that were known then
        self._waiting = everything.where(np.any(everything.states[[number for number, _ in agreeing]], axis=0))
        for first, last in slices(n_pairs[n_waiting:], PAIRS):
            begin, end = first + n_waiting, last + n_waiting
            n_after = int(n_known[end - 1])
            own = slice(*np.searchsorted(keyed, [begin, end]))
            rows, partitions, states = [keyed[own]], [partition[own]], [whole[keyed[own] - n_waiting]]
            for number, each in agreeing:
                of_pair, in_partition = each.pairs(begin, end, n_before, n_after)
                rows.append(of_pair)
                partitions.append(in_partition)
                states.append(everything.states[number][of_pair])
            pairs = np.concatenate(rows), np.concatenate(partitions)
            by_partition = np.lexsort(pairs)  # keyed events, then broadcast ones: out of order by themselves
            once = _each_once(*(part[by_partition] for part in (*pairs, np.concatenate(states))))
            yield self._batch(everything, _Placed(*once, everything.t_ms[once[0]], everything.order[once[0]]))
            n_before = n_after

    def _agreeing(self, events: Candidates, n_known: Int64Array) -> list[tuple[int, Agreement]]:
        """Of each class with a part of the key the partitions that its events are in."""
        known, found = self.keys.values(), []
        for number, each in enumerate(self._classes):
            if not self._whole[number]:
                own = np.flatnonzero(events.states[number])
                part = Part(own, events.key[list(each.components)][:, own], each.components)
                found.append((number, Agreement(part, known, n_known)))
        return found

    def _partitions(self, key: Float64Array) -> Int64Array:
        """Of events with these keys, (n_components, n)."""
        if self._plan.components:
            return self.keys.numbers(np.ascontiguousarray(key))
        self.keys.numbers(key[:, :1])
        return np.zeros(key.shape[1], np.int64)

    def _placed(self, coming: Candidates, first: int, end: int) -> _Placed:
        """The events [first, end), which have all of the key."""
        states = coming.states[:, first:end]
        states = states[0] if len(states) == 1 else np.bitwise_or.reduce(states, axis=0)
        partition = self._partitions(coming.key[:, first:end])
        earlier = coming.t_ms[first:end]
        if len(self.keys) == 1:
            order = earlier if coming.order is coming.t_ms else coming.order[first:end]
            return _Placed(np.arange(first, end), partition, states, earlier, order)
        n_of = np.bincount(partition, minlength=len(self.keys))
        rows, t_ms = np.empty(len(partition), np.int64), np.empty(len(partition), np.int64)
        earlier = np.require(earlier, requirements="W")  # as kernels are compiled
        order_by_partition(partition, earlier, np.cumsum(n_of) - n_of, rows, t_ms)
        states = states if (states == states[0]).all() else states[rows]
        rows += first
        order = t_ms if coming.order is coming.t_ms else coming.order[rows]
        return _Placed(rows, np.repeat(np.arange(len(self.keys)), n_of), states, t_ms, order)

    def _placed_alike(self, coming: Candidates, first: int, end: int, stream: StreamColumns) -> _Placed:
        """The same, made once for all queries that know the same partitions by the same numbers."""
        if not self.is_shared:
            return self._placed(coming, first, end)
        n_before = len(self.keys)

        def make() -> tuple[_Placed, Float64Array]:
            return self._placed(coming, first, end), self.keys.values(slice(n_before, None)).T

        placed, new = stream.once((self._made, self._key_state(), first, end), make)
        if len(self.keys) == n_before and new.shape[1]:
            self.keys.numbers(np.ascontiguousarray(new))
        return placed

    def _key_state(self) -> tuple[int, bytes]:
        """Equal where the same keys have the same numbers."""
        if self._keys_known is None or self._keys_known[0] != len(self.keys):
            self._keys_known = len(self.keys), hashlib.blake2b(self.keys.values().tobytes(), digest_size=16).digest()
        return self._keys_known

    def keep(self, kept: Int64Array) -> None:
        """Forget all partitions but these, which are numbered 0, 1, ... in this order."""
        self.keys.keep(kept)
        self._keys_known = None

    def _batch(self, events: Candidates, placed: _Placed) -> Coming:
        rows, partition, states, t_ms, order = placed
        is_order = order is t_ms
        t_ms = np.require(t_ms, requirements="W")  # as kernels are compiled
        order = t_ms if is_order else np.require(order, requirements="W")
        reached = np.full((3, len(rows) if self._plan.has_notice else 0), -1)
        batch = ta.Batch(
            rows, partition, t_ms, order, states, events.columns, events.derived, reached,
        )  # fmt: skip
        ids = events.ids[0][rows] if self._plan.has_notice else events.ids
        return Coming(batch, ids, events.hi_ms, events.clock, self._is_precise)

    def forget(self, earliest_ms: int) -> None:
        """Events of then or before are in no window any more."""
        if len(self._waiting) and int(self._waiting.hi_ms.min()) <= earliest_ms:
            self._waiting = self._waiting.where(self._waiting.hi_ms > earliest_ms)

    @property
    def n_waiting(self) -> int:
        """Events kept for partitions that are not known yet."""
        return len(self._waiting)

    # ------------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """Keys, and events that partitions to come will have."""
        waiting = self._waiting
        columns: dict[str, np.ndarray] = {name: getattr(waiting, name) for name in _PER_EVENT}
        for name in _ROWS:
            numbers = self._numbers_of(name)
            columns |= {f"{name}{numbers[k]}": row for k, row in enumerate(getattr(waiting, name))}
        keys = {f"k{number}": column for number, column in enumerate(self.keys.values().T)}
        meta = {"n_seen": str(self.n_seen), "n_keys": str(len(self.keys)), "n_rejected": str(self.n_rejected)}
        meta["format"] = FORMAT.decode()
        return {
            "keys": pa.table(keys or {"k": np.zeros(len(self.keys))}).replace_schema_metadata(meta),
            "waiting": pa.table(columns),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if missing := {"keys", "waiting"} - set(state):
            raise StateError(f"saved state of {self._plan.name} lacks {sorted(missing)}")
        width = len(self._plan.components)
        keys, table = state["keys"], state["waiting"]
        meta = keys.schema.metadata or {}
        self.n_seen, self.n_rejected = int(meta[b"n_seen"]), int(meta.get(b"n_rejected", b"0"))
        columns = [keys.column(f"k{number}").to_numpy() for number in range(width)]
        self.keys = KeyTable(width, np.stack(columns, axis=1) if width else np.empty((len(keys), 0)))
        none = self._none()
        if "hi_ms" not in table.column_names:  # saved when events with intervals were left out
            table = table.append_column("hi_ms", table.column("t_ms"))
            table = table.append_column("clock", pa.array(np.full(len(table), -1, np.int64)))
        values = {name: table.column(name).to_numpy() for name in _PER_EVENT}
        for name in _ROWS:
            like, numbers = getattr(none, name), self._numbers_of(name)
            rows = [table.column(f"{name}{numbers[k]}").to_numpy(zero_copy_only=False) for k in range(len(like))]
            values[name] = np.stack(rows) if rows else np.empty((0, len(table)), like.dtype)
        self._waiting = Candidates(**values)
        self._keys_known = None

    def _numbers_of(self, name: str) -> Sequence[int]:
        """The numbers by which rows of candidates are known in a saved state."""
        return saved_numbers(self._tables) if name == "derived" else range(len(getattr(self._waiting, name)))


def _spans(events: Candidates, n: int) -> Iterator[tuple[int, int]]:
    """Cut precise events into so many, and those of the same order: what is read together stays together, so that rows
    are the same to the last bit however events are divided among threads."""
    first = 0
    while first < len(events):
        last = min(first + n, len(events)) - 1
        end = len(events)
        if last + 1 < end:
            end = int(np.searchsorted(events.order, events.order[last], side="right"))
        yield first, end
        first = end


def _each_once(
    rows: Int64Array, partition: Int64Array, states: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """An event that one variable reads by all of the key and another by a part of it is one event of its partition, not
    two that may follow each other."""
    is_first = (np.diff(rows, prepend=-1) != 0) | (np.diff(partition, prepend=-1) != 0)
    if is_first.all():
        return rows, partition, states
    return rows[is_first], partition[is_first], np.bitwise_or.reduceat(states, np.flatnonzero(is_first))


_PER_EVENT = ("t_ms", "hi_ms", "clock", "order")
_ROWS = ("columns", "derived", "key", "states", "ids")


__all__ = ["PAIRS", "Candidates", "Coming", "TrendIntake"]
