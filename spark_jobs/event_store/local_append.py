"""Events into a store on this machine without a JVM: the files, the commits and the copies as `EventStore.append`.

For batches that fit into memory: all of it is Arrow. Both kinds of writers may be at work at once, since they share the
log of commits; who comes second looks for copies again.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.clock import SystemClock
from app.event_store.commits import (
    COMMITS,
    EMPTY,
    Appended,
    Commit,
    CommitLog,
    NotCommittedError,
    State,
    StoredFile,
    chosen_files,
)
from app.event_store.errors import StoreError
from app.event_store.folder import LocalFolder, rooted
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS, MAX_TIME_MS
from spark_jobs.event_store import reading
from spark_jobs.event_store.duplicates import COPY_REACH_MS, with_copies
from spark_jobs.event_store.file_system import create_by_link, sync
from spark_jobs.event_store.resolutions import SAMPLE, SAMPLE_COLUMNS, SAMPLE_SOURCE, left_out_here, touched
from spark_jobs.event_store.schema import COLUMNS, NEEDED, ORDER, SOURCE, to_arrow_schema
from spark_jobs.event_store.staging import DATA, FIRST_MS, STAGING, TYPE_NAME

MAX_STORED_ROWS = 4_000_000
"""Of the files in which copies may be: above it Spark is the better way."""

_MAX_LOST_RACES = 100
_EPOCH = date(1970, 1, 1).toordinal()
_KEY = ("type", "event_id")
_ROW = "row__"


class WritableLocalFolder(LocalFolder):
    """As `file_system.StoreFiles` writes it; raises StoreError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of this name."""
        return self.path(path).exists()

    def create_new(self, path: str, content: bytes) -> bool:
        """Write a file that nobody has written yet: with all its content, or not at all. False: somebody was first."""
        return create_by_link(self.path(path), content)


@dataclass(frozen=True)
class _Lost:
    """Which rows do not count."""

    staged: frozenset[int] = frozenset()
    """Places in the batch."""
    stored: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """By the path of a stored file, the (type, id) of its events that do not count any more."""

    @property
    def n_stored(self) -> int:
        """Stored events that do not count any more."""
        return sum(map(len, self.stored.values()))

    def __or__(self, other: _Lost) -> _Lost:
        paths = {*self.stored, *other.stored}
        nothing = frozenset[tuple[str, str]]()
        stored = {path: self.stored.get(path, nothing) | other.stored.get(path, nothing) for path in paths}
        return _Lost(self.staged | other.staged, stored)


class LocalEventStore:
    """A store in a folder of this machine, to append to."""

    def __init__(self, url: str, precedence: Sequence[str]) -> None:
        """Opens the store, or makes one where nothing is yet. Raises StoreError, as EventStore does."""
        self.url = rooted(url)
        self._folder = WritableLocalFolder(self.url)
        self._log = CommitLog(self._folder)
        self._places = {name: place for place, name in enumerate(precedence)}
        self._state = self._opened_or_created()

    @property
    def version(self) -> int:
        """Number of the last commit that is seen."""
        return self._state.number

    @property
    def files(self) -> list[StoredFile]:
        """All files, in order of date, type and time."""
        return chosen_files(self._state.files.values(), None, None, None)

    def append(self, events: pa.Table, info: Mapping[str, Any]) -> Appended | None:
        """Store rows of EVENTS in one commit; None when too much is stored beside them for this machine's memory.

        Raises StoreError, and then nothing of it is visible.
        """
        _check(events)
        for _ in range(_MAX_LOST_RACES):
            batch = [_stored_file(part) for part in _by_group(events)]
            stored = self._state.files.values()
            near, coarse = with_copies(stored, batch, COPY_REACH_MS), touched(stored, batch)
            if sum({file.path: file.n_rows for file in (*near, *coarse)}.values()) > MAX_STORED_ROWS:
                return None
            done = self._try_append(events, near, coarse, info)
            if done is not None:
                return done
            self._state = self._log.read(self._state)
        raise StoreError(f"{self.url}: {_MAX_LOST_RACES} other commits came first; do it again when less is written")

    def _opened_or_created(self) -> State:
        with _told(self.url):
            if self._log.latest() < 0:
                others = [name for name in self._folder.names("") if not name.startswith("_")]
                if others:
                    raise StoreError(
                        f"{self.url}: found {', '.join(others[:3])}; expected an empty folder for a new store"
                    )
                self._folder.path(COMMITS).mkdir(parents=True, exist_ok=True)
                created = self._log.try_commit(EMPTY, Commit("create", SystemClock().now_ms()))
                if created is not None:
                    return created
            return reading.opened(self._log, self.url)

    def _try_append(
        self, events: pa.Table, near: Sequence[StoredFile], coarse: Sequence[StoredFile], info: Mapping[str, Any]
    ) -> Appended | None:
        """None: another commit came first."""
        copies = self._copies(events, near)
        lost = copies | self._coarser(events, coarse)
        n_duplicate, n_replaced, n_events = len(copies.staged), copies.n_stored, len(events)
        n_overlapped, n_superseded = len(lost.staged) - n_duplicate, lost.n_stored - n_replaced
        if len(lost.staged) == n_events:
            return Appended(n_events, 0, n_duplicate, 0, 0, n_overlapped)
        n_new = n_events - n_duplicate - n_replaced - n_overlapped
        old = [file for path, file in {file.path: file for file in (*near, *coarse)}.items() if path in lost.stored]
        if old:
            reading.check_rewritable(self.url, self._state)
        counting = _without(events, lost.staged)
        kept = [self._unreplaced(file, lost.stored[file.path]) for file in old]
        whole = pa.concat_tables([counting, *kept]) if kept else counting
        staging = self._folder.path(f"{STAGING}/{uuid.uuid4().hex}")
        made: list[StoredFile] = []
        try:
            with _told(self.url):
                for part in _by_group(whole):
                    made.append(self._written(part, staging))
                for folder in sorted({file.path.rpartition("/")[0] for file in made}):
                    sync(self._folder.path(folder))
            told = {
                **info,
                "n_new": n_new,
                "n_duplicate": n_duplicate,
                "n_replaced": n_replaced,
                "n_overlapped": n_overlapped,
                "n_superseded": n_superseded,
            }
            removed = tuple(file.path for file in old)
            state = self._log.try_commit(
                self._state, Commit("append", SystemClock().now_ms(), tuple(made), removed, COLUMNS, told)
            )
        except NotCommittedError:
            self._discard(made)
            raise
        finally:
            _remove(staging)
        if state is None:
            self._discard(made)
            return None
        self._state = state
        return Appended(n_events, n_new, n_duplicate, n_replaced, len(made), n_overlapped, n_superseded)

    def _written(self, rows: pa.Table, staging: Path) -> StoredFile:
        """Rows of one date and type as a file in its place; no commit names it yet."""
        ordered = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in ORDER]))
        described = _stored_file(ordered)
        staging.mkdir(parents=True, exist_ok=True)
        part = staging / f"{uuid.uuid4().hex}.parquet"
        texts = [item.name for item in ordered.schema if pa.types.is_string(item.type) and item.name != "event_id"]
        pq.write_table(ordered, part, compression="zstd", use_dictionary=texts)
        sync(part)
        target = self._folder.path(described.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        n_bytes = part.stat().st_size
        part.rename(target)
        return StoredFile(**{name: getattr(described, name) for name in described.__slots__} | {"n_bytes": n_bytes})

    def _unreplaced(self, file: StoredFile, lost: frozenset[tuple[str, str]]) -> pa.Table:
        rows = self._read(file, to_arrow_schema().names)
        gone = pc.is_in(rows.column("event_id"), value_set=pa.array([event_id for _, event_id in lost], pa.string()))
        return rows.filter(pc.invert(gone))

    def _read(self, file: StoredFile, names: Sequence[str]) -> pa.Table:
        """Columns of a file; those that it lacks are null. Raises StoreError."""
        schema = pa.schema([to_arrow_schema().field(name) for name in names])
        with _told(self._folder.full(file.path)):
            present = set(pq.read_schema(self._folder.path(file.path)).names)
            rows = pq.read_table(
                self._folder.path(file.path), columns=[name for name in names if name in present], partitioning=None
            )
            columns = [
                rows.column(item.name).cast(item.type) if item.name in present else pa.nulls(len(rows), item.type)
                for item in schema
            ]
            return pa.Table.from_arrays(columns, schema=schema)

    def _discard(self, made: Iterable[StoredFile]) -> None:
        for file in made:
            with suppress(OSError):  # what is left is swept later
                self._folder.path(file.path).unlink(missing_ok=True)

    # ---- copies ------------------------------------------------------------------------------------------------

    def _copies(self, events: pa.Table, near: Sequence[StoredFile]) -> _Lost:
        """As `duplicates.losers`: of equal ids the best source's, else the stored one, else the first in order."""
        numbered = events.select([*_KEY, SOURCE, *ORDER[:3], "t_hi_ms"]).append_column(
            _ROW, pa.array(np.arange(len(events)))
        )
        ids = pc.unique(events.column("event_id"))
        stored: dict[tuple[str, str], tuple[tuple[bool, int, str], str]] = {}
        for file in near:
            known = self._read(file, [*_KEY, SOURCE])
            known = known.filter(pc.is_in(known.column("event_id"), value_set=ids))
            for row in known.to_pylist():
                stored[row["type"], row["event_id"]] = self._rank(row[SOURCE]), file.path
        counts = numbered.group_by(list(_KEY)).aggregate([(_ROW, "count")])
        repeated = counts.filter(pc.greater(counts.column(f"{_ROW}_count"), 1))
        suspects = {*stored, *((row["type"], row["event_id"]) for row in repeated.to_pylist())}
        if not suspects:
            return _Lost()
        among = pa.array([event_id for _, event_id in suspects], pa.string())
        rows = numbered.filter(pc.is_in(numbered.column("event_id"), value_set=among)).to_pylist()
        by_key: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if (row["type"], row["event_id"]) in suspects:
                by_key[row["type"], row["event_id"]].append(row)
        lost, replaced = set[int](), defaultdict[str, set[tuple[str, str]]](set)
        for key, own in by_key.items():
            own.sort(key=self._standing)
            first = stored.get(key)
            if first is not None and first[0] <= self._rank(own[0][SOURCE]):
                lost.update(row[_ROW] for row in own)
                continue
            lost.update(row[_ROW] for row in own[1:])
            if first is not None:
                replaced[first[1]].add(key)
        return _Lost(frozenset(lost), {path: frozenset(keys) for path, keys in replaced.items()})

    def _coarser(self, events: pa.Table, near: Sequence[StoredFile]) -> _Lost:
        """As `resolutions.left_out_rows`."""
        is_sample = pc.and_(pc.equal(events.column("type"), SAMPLE), pc.equal(events.column(SOURCE), SAMPLE_SOURCE))
        places = np.flatnonzero(pc.fill_null(is_sample, False).to_numpy())
        if not len(places):
            return _Lost()
        tables = [events.select(SAMPLE_COLUMNS).slice(0, 0), *(self._read(file, SAMPLE_COLUMNS) for file in near)]
        path_idx = np.repeat(np.arange(len(near)), [len(table) for table in tables[1:]])
        rows = pa.concat_tables(tables)
        is_own = pc.fill_null(pc.equal(rows.column(SOURCE), SAMPLE_SOURCE), False)
        rows, path_idx = rows.filter(is_own), path_idx[is_own.to_numpy()]
        refused, superseded = left_out_here(events.take(pa.array(places)), rows)
        gone = defaultdict[str, set[tuple[str, str]]](set)
        event_ids = rows.column("event_id").filter(pa.array(superseded)).to_pylist()
        for idx, event_id in zip(path_idx[superseded].tolist(), event_ids, strict=True):
            gone[near[idx].path].add((SAMPLE, event_id))
        return _Lost(frozenset(places[refused].tolist()), {path: frozenset(keys) for path, keys in gone.items()})

    def _standing(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        times = (row["t_lo_ms"], row["t_hi_ms"], row["source_rank"], row["source_seq"])
        return (*self._rank(row[SOURCE]), *times, row[_ROW])

    def _rank(self, source: str | None) -> tuple[bool, int, str]:
        """As `duplicates.Precedence`."""
        return source is None, self._places.get(source or "", len(self._places)), source or ""


class _told:  # noqa: N801 - a context manager
    """OSError and Arrow's errors as one line that names the place."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError | pa.ArrowException):
            reason = getattr(error, "strerror", None) or str(error)
            raise StoreError(f"{self._place}: {reason}") from error


def _check(events: pa.Table) -> None:
    """Raises StoreError for a row that cannot be an event, as `staging` does."""
    if not events.schema.equals(to_arrow_schema().with_metadata(None)):
        raise StoreError(f"events cannot be stored: found the columns {', '.join(events.column_names)}")
    lo_ms, hi_ms = events.column("t_lo_ms"), events.column("t_hi_ms")
    bad = pc.or_(pc.less(lo_ms, FIRST_MS), pc.or_(pc.greater(hi_ms, MAX_TIME_MS), pc.less(hi_ms, lo_ms)))
    n_bad = pc.sum(bad).as_py() or 0
    missing = [name for name in NEEDED if events.column(name).null_count]
    known = load_event_types().types
    odd = [
        name
        for name in pc.unique(events.column("type")).to_pylist()
        if name not in known and not re.fullmatch(TYPE_NAME, str(name))
    ]
    if n_bad or missing or odd:
        raise StoreError(
            f"{n_bad} events cannot be stored for their times, columns without a value: {missing}, types that are no "
            f"names: {odd}; expected a type that is a name, values for {', '.join(NEEDED)}, and 0001-01-01 <= t_lo_ms "
            "<= t_hi_ms <= 9999-12-31"
        )


def _by_group(rows: pa.Table) -> list[pa.Table]:
    """The rows of each date and type."""
    if not len(rows):
        return []
    day = pa.array(np.floor_divide(rows.column("t_lo_ms").to_numpy(), DAY_MS))
    kinds = rows.column("type").combine_chunks().dictionary_encode()
    if isinstance(kinds, pa.ChunkedArray):
        kinds = kinds.combine_chunks()
    codes = kinds.indices.to_numpy().astype(np.int64)
    groups = day.to_numpy() * len(kinds.dictionary) + codes
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return [rows.take(pa.array(part)) for part in np.split(order, cuts)]


def _stored_file(rows: pa.Table) -> StoredFile:
    """Of rows of one date and type, not written yet."""
    lo_ms, hi_ms = rows.column("t_lo_ms").to_numpy(), rows.column("t_hi_ms").to_numpy()
    kind = rows.column("type")[0].as_py()
    day = date.fromordinal(_EPOCH + int(lo_ms[0]) // DAY_MS).isoformat()
    path = f"{DATA}/date={day}/type={kind}/{uuid.uuid4().hex}.parquet"
    return StoredFile(path, day, kind, len(rows), 0, int(lo_ms.min()), int(lo_ms.max()), int(hi_ms.max()))


def _without(rows: pa.Table, lost: frozenset[int]) -> pa.Table:
    if not lost:
        return rows
    keep = np.ones(len(rows), bool)
    keep[list(lost)] = False
    return rows.filter(pa.array(keep))


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


__all__ = ["MAX_STORED_ROWS", "LocalEventStore"]
