"""The events that runs have selected, and negated ones: what the run-based runtime keeps of a stream."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import BoolArray, Float64Array, Int64Array, Value
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.event_ids import IdColumn, are_few
from engine.stream.interner import Interner
from engine.stream.key_table import KeyTable
from engine.stream.store import MovesBack, StoredEvents

_STATE_VERSION = 2
_LEAST = 64
_MOST_AHEAD = 8192  # rows for which room is made before it is known how many will be kept
_MANY = 65_536  # from so many on there is room for four times as many: what is not used of it takes no memory


class RunStore:
    """Growing columns of precise events in stream order; a smaller row number is earlier.

    Arrays are capacity-sized; the first `len(store)` entries are in use: t_lo_ms, partition, position (in the stream),
    source_seq, clock int64 (n,), columns float64 (n_columns, n), negated bool (n_negations, n), and negated_before
    int64 (n_negations, n), see `engine.kernels.runs.arrays`. The kernel writes most of it; `complete` adds what it does
    not look at. Arrays are never written again below that length: rows that were returned may refer to them.
    """

    def __init__(self, plan: Plan, interner: Interner, key: tuple[str, ...], *, described: bool) -> None:
        """`key`: what partitions are told apart by. `described`: source_seq and clock are kept, which the runtime does
        not need itself."""
        self.plan = plan
        self.interner = interner
        self.ids = IdColumn()
        self.key = key
        self.keys = KeyTable(len(key))
        self.n_seen = 0
        self._flat = ("t_lo_ms", "partition", "position", *(("source_seq", "clock") if described else ()))
        self._allocate(_LEAST)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_partitions(self) -> int:
        """Partitions known; their numbers are 0..n_partitions - 1."""
        return len(self.keys)

    @property
    def t_hi_ms(self) -> Int64Array:
        """The end of the interval of a precise event is its start."""
        return self.t_lo_ms

    def _allocate(self, capacity: int) -> None:
        self.t_lo_ms: Int64Array = np.empty(capacity, np.int64)
        self.partition: Int64Array = np.empty(capacity, np.int64)
        self.position: Int64Array = np.empty(capacity, np.int64)
        described = capacity if "clock" in self._flat else 0
        self.source_seq: Int64Array = np.empty(described, np.int64)
        self.clock: Int64Array = np.empty(described, np.int64)
        self.source: Int64Array = np.empty(capacity, np.int64)
        self.columns = np.empty((len(self.plan.programs.columns), capacity), np.float64)
        self.negated: BoolArray = np.empty((len(self.plan.negations), capacity), np.bool_)
        self.negated_before: Int64Array = np.empty((len(self.plan.negations), capacity), np.int64)

    def reserve(self, n_stored: int, n_more: int, n_usual: int) -> None:
        """Make room for so many more rows; of very many for a good part, or for as many as usual."""
        n_needed = n_stored + min(n_more, max(_MOST_AHEAD, n_usual))
        if n_needed > len(self.t_lo_ms):
            self._grow(n_stored, max(n_needed, _capacity_for(n_stored)))

    def grow(self, n_stored: int) -> None:
        """Make room for at least as many rows again as there are, of which `n_stored` have been written."""
        self._grow(n_stored, _capacity_for(len(self.t_lo_ms)))

    def _grow(self, n_stored: int, capacity: int) -> None:
        old = self.__dict__.copy()
        self._allocate(capacity)
        for name in (*self._flat, "source"):
            getattr(self, name)[:n_stored] = old[name][:n_stored]
        for name in ("columns", "negated", "negated_before"):
            getattr(self, name)[:, :n_stored] = old[name][:, :n_stored]

    def complete(self, stream: StreamColumns, n_stored: int) -> None:
        """The kernel has stored rows up to `n_stored` from this batch; `source` says which."""
        n_old = len(self)
        if n_stored > n_old:
            rows = self.source[n_old:n_stored]
            if "clock" in self._flat:
                self.source_seq[n_old:n_stored] = stream.source_seq[rows]
                self.clock[n_old:n_stored] = stream.clocks[rows]
            if are_few(len(rows), len(stream)):
                self.ids.append(stream.ids_of(rows))
            else:
                self.ids.append_chosen(*stream.ids_and_rows(rows.copy()), len(stream))

    def as_it_is(self) -> StoredEvents:
        """Ids and keys of the rows that are here now, for rows of output."""
        keys = self.keys.bits()
        # A key that the query does not name is not seen from outside.
        return StoredEvents(self.plan, self.interner.known, self.ids.as_it_is(), keys if self.plan.key else keys[:, :0])

    def move_back(self, by: MovesBack) -> None:
        """Earlier times for the rows of each partition."""
        n = len(self)
        moved = np.append(by(self.keys.columns(np.arange(self.n_partitions))), 0)
        self.t_lo_ms[:n] -= moved[self.partition[:n]]

    def key_of(self, partition: int) -> tuple[tuple[str, Value], ...]:
        """The key of a partition as (attribute, value) pairs."""
        return self.as_it_is().key_of(partition)

    def keep(self, rows: Int64Array, partitions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Drop all but these rows and partitions, both ascending; the caller chains the negated rows anew.

        Returns the new number of each old row and of each old partition, -1 where dropped; one more entry stands at the
        end of both, so that indexing with -1 (no row, BROADCAST) gives -1.
        """
        new_row = _renumbered(len(self), rows)
        new_partition = _renumbered(self.n_partitions, partitions)
        old, n = self.__dict__.copy(), len(rows)
        self._allocate(max(_LEAST, 2 * n))
        for name in self._flat:
            getattr(self, name)[:n] = old[name][rows]
        self.partition[:n] = new_partition[self.partition[:n]]
        for name in ("columns", "negated"):
            getattr(self, name)[:, :n] = old[name][:, rows]
        self.ids = self.ids.keep(rows)
        self.keys.keep(partitions)
        return new_row, new_partition

    # ------------------------------------------------------------------ state

    def save(self) -> pa.Table:
        """All rows; numbers as they are, strings as codes of the interner."""
        n = len(self)
        data: dict[str, pa.Array] = {name: pa.array(getattr(self, name)[:n]) for name in self._flat}
        data["id"] = self.ids.array()
        for number, name in enumerate(self.plan.programs.columns):
            data[f"column.{name}"] = pa.array(self.columns[number, :n])
        for number in range(len(self.plan.negations)):
            data[f"negated.{number}"] = pa.array(self.negated[number, :n])
        metadata = {"version": str(_STATE_VERSION), "n_seen": str(self.n_seen)}
        return pa.table(data).replace_schema_metadata(metadata)

    def restore(self, table: pa.Table, keys: Float64Array) -> None:
        """Take over what `save` returned; raises StateError for that of another version or query."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        if metadata.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(f"saved events have version {metadata.get(b'version')!r}, expected {_STATE_VERSION}")
        names = [f"column.{name}" for name in self.plan.programs.columns]
        negations = [f"negated.{number}" for number in range(len(self.plan.negations))]
        expected = {*self._flat, "id", *names, *negations}
        if set(table.column_names) != expected:
            raise StateError(f"saved events have columns {sorted(table.column_names)}, expected {sorted(expected)}")
        n = table.num_rows
        self.n_seen = int(metadata[b"n_seen"])
        self._allocate(max(_LEAST, 2 * n))
        for name in self._flat:
            getattr(self, name)[:n] = table.column(name).to_numpy()
        for number, name in enumerate(names):
            self.columns[number, :n] = table.column(name).to_numpy()
        for number, name in enumerate(negations):
            self.negated[number, :n] = table.column(name).to_numpy(zero_copy_only=False)
        self.ids = IdColumn(table.column("id").combine_chunks())
        self.keys = KeyTable(len(self.key), keys)


def _capacity_for(n: int) -> int:
    return 2 * n if n < _MANY else 4 * n


def _renumbered(n: int, kept: Int64Array) -> Int64Array:
    numbers: Int64Array = np.full(n + 1, -1, np.int64)
    numbers[kept] = np.arange(len(kept))
    return numbers
