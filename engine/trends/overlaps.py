"""Events whose times overlap, by partition: they are held until nothing more can come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Int64Array
from engine.kernels.trends import arrays as ta
from engine.kernels.trends import overlap as kernel
from engine.kernels.trends import overlap_arrays as oa
from engine.language import ast
from engine.plan.trends.model import JoinWay, TrendPlan
from engine.trends.intake import Coming
from engine.trends.memory import TrendMemory
from engine.trends.template_arrays import TrendTables, saved_numbers

LEAST_MEMBERS = 8
LEAST_ENTRIES = 16

PART = 512
"""Events of a partition that are taken in before what is stored is indexed: what is stored meanwhile is looked at one
by one."""

_MEMBER = ("hi_ms", "clock", "serial", "bit", "doubt")
_OF_BATCH = ("t_ms", "order", "states")
_ENTRY = ("entry_node", "entry_used", "entry_may")


@dataclass
class _Open:
    """The overlap of one partition; `members` are its events as a batch."""

    overlap: oa.Overlap
    members: ta.Batch

    @property
    def n_members(self) -> int:
        return int(self.overlap.state[oa.N_MEMBERS])

    def stored(self) -> ta.Batch:
        """The members that there are, with the same arrays."""
        n, whole = self.n_members, self.members
        return whole._replace(rows=whole.rows[:n], partition=whole.partition[:n], states=whole.states[:n])


@dataclass(frozen=True)
class Retired:
    """Members that are told of: their partitions, times, what trends reached them (3, n), and their ids."""

    partition: Int64Array
    t_ms: Int64Array
    reached: Int64Array
    ids: np.ndarray


class TrendOverlaps:
    """The partitions of a query in which times overlap. `n_slots`: members of an overlap that may come back, of which
    it is told apart whether a trend has them."""

    def __init__(self, plan: TrendPlan, tables: TrendTables, memory: TrendMemory, n_slots: int) -> None:
        if not 0 <= n_slots <= oa.MOST_SLOTS:
            raise ValueError(f"Limits.trend_overlap is {n_slots}; expected 0 to {oa.MOST_SLOTS}")
        self._template = tables.template
        self._tables = tables
        self._memory = memory
        self._derived = saved_numbers(tables)
        self._has_notice = plan.has_notice
        sizes = tables.template.sizes
        self._n_positive = int(sizes[ta.N_POSITIVE])
        self._width = int(sizes[ta.N_WINDOWS]) * int(sizes[ta.N_NUMBERS])
        self._n_columns = len(plan.programs.columns)
        returns = np.zeros(self._n_positive, np.int64)
        returns[list(plan.returning)] = 1
        self._table = oa.OverlapTable(
            _joins(plan, tables.template), returns, np.array([int(plan.ties is ast.Ties.SOURCE)])
        )
        self._n_slots = n_slots if returns.any() else 0
        self._open: dict[int, _Open] = {}
        self._ids: dict[int, str] = {}
        self._next_serial = 0
        self._retired: list[tuple[int, Int64Array]] = []
        self.n_rejected = 0

    def __len__(self) -> int:
        """Events that are held."""
        return sum(each.n_members for each in self._open.values())

    @property
    def partitions(self) -> Int64Array:
        """Those in which something is held."""
        return np.fromiter(self._open, np.int64, len(self._open))

    # ------------------------------------------------------------------ events

    def take_in(self, coming: Coming, rows: Int64Array, results: ta.Results, scratch: ta.Scratch) -> Iterator[None]:
        """Take in the events of some rows of a batch, whole partitions of it; stops when results must be taken."""
        if not len(rows):
            return
        whole, n_rejected = coming.batch, self.n_rejected
        batch = whole._replace(
            rows=whole.rows[rows], partition=whole.partition[rows], t_ms=whole.t_ms[rows], order=whole.order[rows],
            states=whole.states[rows],
        )  # fmt: skip
        more = np.empty((3, len(coming.hi_ms)), np.int64)
        more[oa.HI_MS], more[oa.CLOCK] = coming.hi_ms, coming.clock
        more[oa.SERIAL] = self._next_serial + np.arange(more.shape[1])
        self._next_serial += more.shape[1]
        if self._has_notice:
            self._ids.update(zip(more[oa.SERIAL, batch.rows].tolist(), map(str, coming.ids[rows]), strict=True))
        firsts = np.flatnonzero(np.diff(batch.partition, prepend=-1))
        for partition in batch.partition[firsts].tolist():
            if partition not in self._open:
                self._open[partition] = self._new(partition)
        self._grow_all(batch)
        for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True):
            each = self._open[int(batch.partition[first])]
            for begin in range(first, last, PART):
                end = min(last, begin + PART)
                self._index(batch, begin, end)
                yield from self._sweep(each, batch, more, begin, end, ta.NEVER, results, scratch)
        if self.n_rejected > n_rejected and self._has_notice:
            self._forget_ids()

    def _forget_ids(self) -> None:
        """Of events that were left out."""
        known = [rows[oa.RETIRED_SERIAL] for _, rows in self._retired]
        known += [each.overlap.serial[: each.n_members] for each in self._open.values()]
        self._ids = {serial: self._ids[serial] for part in known for serial in part.tolist()}

    def advance(self, watermark_ms: int, results: ta.Results, scratch: ta.Scratch) -> Iterator[None]:
        """No event before the watermark comes any more."""
        none = self._no_members(0, -1)
        if self._open:
            self._grow_all(none)
        for partition, each in list(self._open.items()):
            yield from self._sweep(each, none, np.empty((3, 0), np.int64), 0, 0, watermark_ms, results, scratch)
            if not each.n_members:
                del self._open[partition]

    def _grow_all(self, batch: ta.Batch) -> None:
        """For what may be stored: each event that comes or is held."""
        memory = self._memory
        if not self._tables.stored_states:
            return
        new = memory.n_new(batch, 0, len(batch.rows))
        for each in self._open.values():
            stored = each.stored()
            new += memory.n_new(stored, 0, len(stored.rows))
        memory.reserve_vertices(new.reshape(-1))

    def _index(self, batch: ta.Batch, first: int, end: int) -> None:
        """Before the events [first, end) come: what is stored already, as far as it pays."""
        if self._tables.indexed:
            self._memory.index_all(self._memory.n_new(batch, first, end), batch, first, end)

    def _sweep(
        self, each: _Open, batch: ta.Batch, more: Int64Array, first: int, last: int, until_ms: int,
        results: ta.Results, scratch: ta.Scratch,
    ) -> Iterator[None]:  # fmt: skip
        n_retired = each.n_members + last - first if self._has_notice else 0
        retired = np.empty((5, n_retired), np.int64)
        state = each.overlap.state
        while True:
            memory = self._memory
            state[oa.WANTS] = oa.NOTHING
            first = kernel.sweep(
                self._template, self._table, each.overlap, each.members, batch, more, memory.sums, memory.vertices,
                memory.indexes.arrays, memory.indexes.ahead, results, scratch, retired, first, last, until_ms,
            )  # fmt: skip
            match int(state[oa.WANTS]):
                case oa.NOTHING:
                    break
                case oa.CAPACITY_FOR_RESULTS:
                    yield
                case _:
                    self._grow(each)
                    state = each.overlap.state
        yield
        self.n_rejected += int(state[oa.N_REJECTED])
        if state[oa.N_RETIRED]:
            self._retired.append((int(state[oa.PARTITION]), retired[:, : int(state[oa.N_RETIRED])]))
        state[oa.N_REJECTED] = state[oa.N_RETIRED] = 0

    def take_retired(self, last_window: int) -> Iterator[Retired]:
        """What trends reached members that are gone, and the windows up to one of those that are still here."""
        for partition, rows in self._retired:
            yield self._evidence(partition, rows[oa.RETIRED_SERIAL], rows[oa.RETIRED_MS], rows[oa.RETIRED_REACHED :])
        gone = {serial for _, rows in self._retired for serial in rows[oa.RETIRED_SERIAL].tolist()}
        if gone:  # an event without the group is a member in several partitions
            stored = (each.overlap.serial[: each.n_members].tolist() for each in self._open.values())
            for serial in gone.difference(*stored):
                self._ids.pop(serial, None)
        self._retired = []
        for partition, each in self._open.items():
            n = each.n_members
            reached = each.members.reached[:, :n]
            at = np.flatnonzero((reached[ta.REACHED_BY] >= 0) & (reached[ta.FIRST_REACHED] <= last_window))
            if not len(at):
                continue
            now = reached[:, at].copy()
            now[ta.LAST_REACHED] = np.minimum(now[ta.LAST_REACHED], last_window)
            yield self._evidence(partition, each.overlap.serial[at], each.members.t_ms[at], now)
            reached[ta.FIRST_REACHED, at] = last_window + 1
            is_done = reached[ta.LAST_REACHED, at] <= last_window
            reached[ta.REACHED_BY, at[is_done]] = -1

    def _evidence(self, partition: int, serial: Int64Array, t_ms: Int64Array, reached: Int64Array) -> Retired:
        ids = np.array([self._ids[each] for each in serial.tolist()], object)
        return Retired(np.full(len(serial), partition), t_ms.copy(), np.ascontiguousarray(reached), ids)

    def renumber(self, kept: Int64Array) -> None:
        """Partitions are numbered anew: these, in this order."""
        opened = self._open
        self._open = {}
        for new, old in enumerate(kept.tolist()):
            if old in opened:
                each = self._open[new] = opened.pop(old)
                each.overlap.state[oa.PARTITION] = new
                each.members.partition[:] = new
        assert not opened

    # ------------------------------------------------------------------ arrays

    def _new(self, partition: int) -> _Open:
        state = np.zeros(oa.STATE_SIZE, np.int64)
        state[oa.PARTITION], state[oa.TIME_MS], state[oa.N_SLOTS] = partition, ta.NEVER, self._n_slots
        return self._arrays(state, LEAST_MEMBERS, max(2 * self._n_positive, LEAST_MEMBERS), LEAST_ENTRIES)

    def _arrays(self, state: Int64Array, n_members: int, n_nodes: int, n_entries: int) -> _Open:
        n_sets = 1 << int(state[oa.N_SLOTS])
        base = np.zeros(n_nodes * self._width, np.int64)
        numbers = np.zeros(n_entries * oa.N_PLANES * self._width, np.int64)

        def zeros(n: int) -> Int64Array:
            return np.zeros(n, np.int64)

        overlap = oa.Overlap(
            state=state, hi_ms=zeros(n_members), clock=zeros(n_members), serial=zeros(n_members), bit=zeros(n_members),
            doubt=zeros(n_members), node_member=zeros(n_nodes), node_state=zeros(n_nodes),
            base_whole=base, base_real=base.view(np.float64), base_scale=np.zeros(len(base), np.int32),
            adjacent=np.zeros(n_nodes * n_nodes, np.uint8), position=np.full(n_nodes * n_sets, -1, np.int32),
            entry_node=zeros(n_entries), entry_used=zeros(n_entries), entry_may=zeros(n_entries),
            whole=numbers, real=numbers.view(np.float64), scale=np.zeros(len(numbers), np.int32),
            numbering=zeros(n_members + n_nodes),
        )  # fmt: skip
        return _Open(overlap, self._no_members(n_members, int(state[oa.PARTITION])))

    def _no_members(self, n: int, partition: int) -> ta.Batch:
        sizes = self._template.sizes
        return ta.Batch(
            np.arange(n), np.full(n, partition), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
            np.zeros((self._n_columns, n)), np.zeros((int(sizes[ta.N_DERIVED]), n)),
            np.full((3, n if self._has_notice else 0), -1),
        )  # fmt: skip

    def _grow(self, each: _Open) -> None:
        """Twice the room of what is full."""
        old = each.overlap
        n_members, n_nodes, n_entries = len(old.hi_ms), len(old.node_member), len(old.entry_node)
        if old.state[oa.WANTS] == oa.CAPACITY_FOR_ENTRIES:
            n_entries = 2 * n_entries
        else:
            n_members, n_nodes = 2 * n_members, 2 * n_nodes
        grown = self._arrays(old.state, n_members, n_nodes, n_entries)
        new = grown.overlap
        for name in oa.Overlap._fields:
            if name not in ("state", "adjacent", "numbering"):
                before = getattr(old, name)
                getattr(new, name)[: len(before)] = before
        capacity = len(old.node_member)
        new.adjacent.reshape(n_nodes, n_nodes)[:capacity, :capacity] = old.adjacent.reshape(capacity, capacity)
        for name in ("t_ms", "order", "states", "columns", "derived", "reached"):
            before = getattr(each.members, name)
            getattr(grown.members, name)[..., : before.shape[-1]] = before
        each.overlap, each.members = grown.overlap, grown.members

    # ------------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """What is held, one partition after the other."""
        ids = self._ids if self._has_notice else None
        parts = [_Saved.of(each, self._width, self._derived, ids) for each in self._open.values()]
        return {
            f"overlap_{part.name}": pa.concat_tables([getattr(each, part.name) for each in parts])
            for part in fields(_Saved)
            if parts
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if "overlap_states" not in state:
            return
        try:
            self._restore({part.name: state[f"overlap_{part.name}"] for part in fields(_Saved)})
        except (KeyError, IndexError, ValueError) as error:
            raise StateError(f"saved events whose times overlap do not fit: {error}") from None

    def _restore(self, tables: Mapping[str, pa.Table]) -> None:
        at = dict.fromkeys(tables, 0)

        def take(name: str, n: int) -> pa.Table:
            at[name] += n
            return tables[name].slice(at[name] - n, n)

        for row in tables["states"].to_pylist():
            state = np.array([row[f"s{number}"] for number in range(oa.STATE_SIZE)], np.int64)
            n_members, n_nodes, n_entries = state[[oa.N_MEMBERS, oa.N_NODES, oa.N_ENTRIES]].tolist()
            each = self._arrays(state, n_members + 4, n_nodes + 2 * self._n_positive, n_entries + LEAST_ENTRIES)
            overlap, members = each.overlap, each.members
            part = take("members", n_members)
            for name in _MEMBER:
                getattr(overlap, name)[:n_members] = part.column(name).to_numpy()
            for name in _OF_BATCH:
                getattr(members, name)[:n_members] = part.column(name).to_numpy()
            for name, row_of in _rows_of(members, self._derived):
                row_of[:n_members] = part.column(name).to_numpy()
            serials = self._next_serial + np.arange(n_members)
            overlap.serial[:n_members] = serials
            self._next_serial += n_members
            if self._has_notice:
                self._ids.update(zip(serials.tolist(), part.column("id").to_pylist(), strict=True))
            nodes, base = take("nodes", n_nodes), take("base", n_nodes * self._width)
            overlap.node_member[:n_nodes] = nodes.column("member").to_numpy()
            overlap.node_state[:n_nodes] = nodes.column("state").to_numpy()
            overlap.base_whole[: len(base)] = base.column("whole").to_numpy()
            overlap.base_scale[: len(base)] = base.column("scale").to_numpy()
            capacity = len(overlap.node_member)
            adjacent = take("adjacent", n_nodes * n_nodes).column("how").to_numpy().reshape(n_nodes, n_nodes)
            overlap.adjacent.reshape(capacity, capacity)[:n_nodes, :n_nodes] = adjacent
            entries, numbers = take("entries", n_entries), take("numbers", n_entries * self._width)
            for name in _ENTRY:
                getattr(overlap, name)[:n_entries] = entries.column(name).to_numpy()
            for name, array in (("whole", overlap.whole), ("scale", overlap.scale)):
                planes = array.reshape(-1, oa.N_PLANES, self._width)
                planes[:n_entries, oa.TOTAL] = numbers.column(name).to_numpy().reshape(n_entries, self._width)
            at_set = (overlap.entry_node[:n_entries] << int(state[oa.N_SLOTS])) + overlap.entry_used[:n_entries]
            overlap.position[at_set] = np.arange(n_entries)
            self._open[int(state[oa.PARTITION])] = each


@dataclass(frozen=True)
class _Saved:
    """The tables of one overlap."""

    states: pa.Table
    members: pa.Table
    nodes: pa.Table
    base: pa.Table
    adjacent: pa.Table
    entries: pa.Table
    numbers: pa.Table

    @classmethod
    def of(cls, each: _Open, width: int, derived: Sequence[int], ids: Mapping[int, str] | None) -> _Saved:
        overlap, members = each.overlap, each.members
        state = overlap.state
        n_members, n_nodes, n_entries = state[[oa.N_MEMBERS, oa.N_NODES, oa.N_ENTRIES]].tolist()
        columns = {name: getattr(overlap, name)[:n_members] for name in _MEMBER}
        columns |= {name: getattr(members, name)[:n_members] for name in _OF_BATCH}
        columns |= {name: row[:n_members] for name, row in _rows_of(members, derived)}
        table = pa.table(columns)
        if ids is not None:
            named = [ids[serial] for serial in overlap.serial[:n_members].tolist()]
            table = table.append_column("id", pa.array(named, pa.string()))
        capacity = len(overlap.node_member)
        adjacent = overlap.adjacent.reshape(capacity, capacity)[:n_nodes, :n_nodes].reshape(-1)
        totals = [
            array.reshape(-1, oa.N_PLANES, width)[:n_entries, oa.TOTAL].reshape(-1)
            for array in (overlap.whole, overlap.scale)
        ]
        return cls(
            states=pa.table({f"s{number}": [int(value)] for number, value in enumerate(state)}),
            members=table,
            nodes=pa.table({"member": overlap.node_member[:n_nodes], "state": overlap.node_state[:n_nodes]}),
            base=pa.table(
                {"whole": overlap.base_whole[: n_nodes * width], "scale": overlap.base_scale[: n_nodes * width]}
            ),
            adjacent=pa.table({"how": adjacent}),
            entries=pa.table({name: getattr(overlap, name)[:n_entries] for name in _ENTRY}),
            numbers=pa.table({"whole": totals[0], "scale": totals[1]}),
        )


def _rows_of(members: ta.Batch, derived: Sequence[int]) -> list[tuple[str, np.ndarray]]:
    """What members have, by the names in a saved state; `derived`: see `saved_numbers`."""
    numbers = {"columns": range(len(members.columns)), "derived": derived, "reached": range(len(members.reached))}
    return [
        (f"{name}{numbers[name][k]}", row)
        for name in ("columns", "derived", "reached")
        for k, row in enumerate(getattr(members, name))
        if len(row)
    ]


def _joins(plan: TrendPlan, template: ta.Template) -> Int64Array:
    """How one state of the positive template follows another, (s, s)."""
    n = len(plan.templates.positive.states)
    found = np.full((n, n), oa.NO_JOIN)
    for join in plan.joins:
        if join.way is JoinWay.SUM:
            found[join.source, join.target] = oa.SUMMED
            continue
        begin = int(template.scan_ends[join.target - 1]) if join.target else 0
        scans = range(begin, int(template.scan_ends[join.target]))
        found[join.source, join.target] = next(k for k in scans if template.scans[k, ta.SOURCE] == join.source)
    return found


__all__ = ["Retired", "TrendOverlaps"]
