"""The event store: create, open, append, read.

ROOT/_commits/<number>.json                      what each change added and removed
ROOT/data/date=YYYY-MM-DD/type=NAME/<id>.parquet events; a file counts only when a commit names it
ROOT/_staging/<id>/                              what is being written
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.event_store.commits import (
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
from app.settings import Sources
from collectors.time_units import DAY_MS
from spark_jobs.event_store import reading
from spark_jobs.event_store.compaction import Bundle, bundles_of, rounds_of
from spark_jobs.event_store.duplicates import (
    COPY_REACH_MS,
    FILE,
    N_STAGED,
    STAGED,
    Precedence,
    losers,
    suspects,
    unreplaced,
    winners,
    with_copies,
)
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.lost_rows import Lost, lost_among
from spark_jobs.event_store.resolutions import SAMPLE, left_out_rows, touched
from spark_jobs.event_store.schema import COLUMNS, EVENTS, SOURCE
from spark_jobs.event_store.staging import (
    BUNDLE,
    TARGET_BYTES,
    Staged,
    Staging,
    check_columns,
    scattered,
)
from spark_jobs.event_store.sweeping import Swept, sweep

SWEEP_AGE_MS = DAY_MS
ROUND_BYTES = 4 * 2**30

_MAX_LOST_RACES = 100


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of small files."""

    n_files_before: int
    n_files_after: int


def now_ms() -> int:
    """The system's clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted: events, in so many files of which the others are written anew."""

    n_events: int
    n_files: int


class EventStore:
    """A store as it was when it was opened, refreshed or last written to; many may be open at once."""

    def __init__(
        self,
        spark: SparkSession,
        files: StoreFiles,
        state: State,
        precedence: Sequence[str] | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._spark = spark
        self._files = files
        self._log = CommitLog(files)
        self._state = state
        self._precedence = Precedence(tuple(Sources().precedence if precedence is None else precedence))
        self._clock = clock

    @classmethod
    def create(cls, spark: SparkSession, url: str, **options: Any) -> EventStore:
        """A new store in a folder that is absent or empty; raises StoreError otherwise. Options: as `open`."""
        files = StoreFiles(spark, url)
        store = cls(spark, files, EMPTY, **options)
        if store._log.latest() >= 0:
            raise StoreError(f"{files.url}: there is a store already; open it, or name another folder")
        others = [name for name in files.names("") if not name.startswith("_")]
        if others:
            raise StoreError(f"{files.url}: found {', '.join(others[:3])}; expected an empty folder for a new store")
        files.make_folder("_commits")
        created = store._log.try_commit(EMPTY, Commit("create", store._clock()))
        if created is None:
            raise StoreError(f"{files.url}: somebody else has just created a store there; open it")
        store._state = created
        return store

    @classmethod
    def open(cls, spark: SparkSession, url: str, **options: Any) -> EventStore:
        """The store at a URL, or a path of this machine; raises StoreError when there is none or it cannot be read.

        Options: `precedence`, the names of sources, the best first (default: that of a configuration without one);
        `clock`, the present time in ms.
        """
        files = StoreFiles(spark, url)
        return cls(spark, files, reading.opened(CommitLog(files), files.url), **options)

    @classmethod
    def open_or_create(cls, spark: SparkSession, url: str, **options: Any) -> EventStore:
        """The store at a URL; a new one where there is nothing yet."""
        files = StoreFiles(spark, url)
        if CommitLog(files).latest() < 0:
            try:
                return cls.create(spark, url, **options)
            except StoreError:
                if CommitLog(files).latest() < 0:
                    raise
        return cls.open(spark, url, **options)

    @property
    def url(self) -> str:
        """Of the store's folder, with its scheme."""
        return self._files.url

    @property
    def version(self) -> int:
        """Number of the last commit that is seen."""
        return self._state.number

    def refresh(self) -> None:
        """See what has been committed since."""
        state = self._log.read(self._state)
        reading.check_columns(self.url, state)
        self._state = state

    def files(
        self, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[StoredFile]:
        """Files that may hold events of these types that touch the closed span; None: no limit."""
        return chosen_files(self._state.files.values(), types, from_ms, to_ms)

    def read(
        self,
        types: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
    ) -> DataFrame:
        """Events of these types whose interval touches the closed span, in no order; None: no limit.

        `columns`: names out of EVENTS, by default all. Only files, row groups and columns that are needed are read.
        """
        selected = self.files(types, from_ms, to_ms)
        return reading.read_files(self._spark, self._files, selected, columns, from_ms, to_ms)

    def append(
        self, events: DataFrame, *, copy_reach_ms: int | None = COPY_REACH_MS, info: Mapping[str, Any] | None = None
    ) -> Appended:
        """Store events (columns of EVENTS, any order) in one commit; the frame is evaluated once.

        An event whose id is known is a copy: see `duplicates`. Copies are looked for in events of the same type that
        are up to `copy_reach_ms` away (None: in all). Raises StoreError, and then nothing of it is visible.
        """
        check_columns(events)
        with Staging(self._spark, self._files).opened() as staging:
            staged = staging.write_events(events)
            if not staged:
                return Appended(0, 0, 0, 0, 0)
            for attempt in range(_MAX_LOST_RACES):
                done = self._try_append(staging, staged, copy_reach_ms, dict(info or {}), attempt)
                if done is not None:
                    return done
                self.refresh()
        raise StoreError(f"{self.url}: {_MAX_LOST_RACES} other commits came first; do it again when less is written")

    def compact(self, *, target_bytes: int = TARGET_BYTES, round_bytes: int = ROUND_BYTES) -> Compacted:
        """Merge small files of one date and type, each up to `target_bytes`; a commit per `round_bytes` read.

        What others append meanwhile stays. Raises StoreError; what was committed before holds.
        """
        n_before = n_after = 0
        for _ in range(_MAX_LOST_RACES):
            self.refresh()
            reading.check_rewritable(self.url, self._state)
            bundles = bundles_of(self._state.files.values(), target_bytes)
            if not bundles:
                return Compacted(n_before, n_after)
            for chosen in rounds_of(bundles, round_bytes):
                if not self._try_compact(chosen):
                    break  # one of the files is gone: look again
                n_before += sum(len(bundle.files) for bundle in chosen)
                n_after += len(chosen)
        raise StoreError(f"{self.url}: {_MAX_LOST_RACES} other commits came first; do it again when less is written")

    def delete(
        self, source: str, *, from_ms: int | None = None, to_ms: int | None = None, dry_run: bool = False
    ) -> Deleted:
        """Remove the events of a source whose interval begins within the closed span, in one commit.

        Copies of them that came from other sources and did not count are not there any more: ingest those again. A
        reader that has listed the files before still sees them until they are swept. `dry_run`: count them only.
        Raises StoreError, and then nothing is deleted.
        """
        for _ in range(_MAX_LOST_RACES):
            self.refresh()
            deleted = self._try_delete(source, from_ms, to_ms, dry_run=dry_run)
            if deleted is not None:
                return deleted
        raise StoreError(f"{self.url}: {_MAX_LOST_RACES} other commits came first; do it again when less is written")

    def sweep(self, *, older_than_ms: int = SWEEP_AGE_MS) -> Swept:
        """Remove what writes that did not end left, and files that no state of the last `older_than_ms` names.

        The age must be longer than any write or query that may be running.
        """
        return sweep(self._files, self._log, older_than_ms=older_than_ms, now_ms=self._clock())

    def _try_delete(self, source: str, from_ms: int | None, to_ms: int | None, *, dry_run: bool) -> Deleted | None:
        """None: another commit came first."""
        near = self.files(from_ms=from_ms, to_ms=to_ms)
        if not near:
            return Deleted(0, 0)
        gone = sf.col(SOURCE) == source
        if from_ms is not None:
            gone &= sf.col("t_lo_ms") >= from_ms
        if to_ms is not None:
            gone &= sf.col("t_lo_ms") <= to_ms
        rows = reading.scan(self._spark, self._files, near)
        with job_errors(f"{self.url}: cannot be read"):
            found = rows.where(gone).groupBy(sf.col("_metadata.file_name").alias(FILE)).count().collect()
        n_gone = {row[FILE]: row["count"] for row in found}
        old = [file for file in near if file.path.rpartition("/")[2] in n_gone]
        deleted = Deleted(sum(n_gone.values()), len(old))
        if dry_run or not old:
            return deleted
        rest = [file for file in old if file.n_rows > n_gone[file.path.rpartition("/")[2]]]
        with Staging(self._spark, self._files).opened() as staging:
            placed: list[Staged] = []
            if rest:
                reading.check_rewritable(self.url, self._state)
                kept = reading.scan(self._spark, self._files, rest).where(~sf.coalesce(gone, sf.lit(False)))
                n_kept = sum(file.n_rows - n_gone[file.path.rpartition("/")[2]] for file in rest)
                placed = staging.write_final(kept, n_kept, sum(file.n_bytes for file in rest))
            staging.place(placed)
            info = {"source": source, "from_ms": from_ms, "to_ms": to_ms, "n_events": deleted.n_events}
            commit = Commit(
                "delete",
                self._clock(),
                tuple(one.file for one in placed),
                tuple(file.path for file in old),
                COLUMNS,
                info,
            )
            if self._committed(commit):
                return deleted
            staging.discard([one.file for one in placed])
        return None

    def _try_compact(self, bundles: Sequence[Bundle]) -> bool:
        """False: another commit has removed one of the files."""
        old = [file for bundle in bundles for file in bundle.files]
        number = {file.path.rpartition("/")[2]: place for place, bundle in enumerate(bundles) for file in bundle.files}
        numbers = self._spark.createDataFrame(list(number.items()), f"{FILE} string, {BUNDLE} int")
        with Staging(self._spark, self._files).opened() as staging:
            rows = (
                reading.scan(self._spark, self._files, old)
                .withColumn(FILE, sf.col("_metadata.file_name"))
                .join(sf.broadcast(numbers), FILE)
                .select(*EVENTS.names, BUNDLE)
            )
            staged = staging.write_bundles(rows, sum(file.n_rows for file in old), len(bundles))
            staging.place(staged)
            made = [one.file for one in staged]
            commit = Commit(
                "compact", self._clock(), tuple(made), tuple(file.path for file in old), COLUMNS, {"n_files": len(old)}
            )
            while all(file.path in self._state.files for file in old):
                if self._committed(commit):
                    return True
                self.refresh()
            staging.discard(made)
        return False

    def _try_append(
        self,
        staging: Staging,
        staged: Sequence[Staged],
        reach_ms: int | None,
        info: dict[str, Any],
        attempt: int,
    ) -> Appended | None:
        """None: another commit came first, and the staged files are where they were."""
        everything = list(self._state.files.values())
        near = everything if reach_ms is None else with_copies(everything, [one.file for one in staged], reach_ms)
        coarse = touched(everything, [one.file for one in staged])
        copies = self._copies(staging, staged, near, attempt)
        coarser = self._coarser(staging, staged, coarse, copies, attempt)
        lost = copies | coarser
        n_events = sum(one.file.n_rows for one in staged)
        n_duplicate, n_replaced = sum(copies.n_staged.values()), sum(copies.n_stored.values())
        n_overlapped, n_superseded = sum(coarser.n_staged.values()), sum(coarser.n_stored.values())
        if n_duplicate + n_overlapped == n_events:
            return Appended(n_events, 0, n_duplicate, 0, 0, n_overlapped)
        old = [file for path, file in {file.path: file for file in (*near, *coarse)}.items() if path in lost.n_stored]
        anew = scattered(staged) | {(file.date, file.type) for file in old}
        anew |= {(one.file.date, one.file.type) for one in staged if one.path in lost.n_staged}
        as_they_are = [one for one in staged if (one.file.date, one.file.type) not in anew]
        others = [one for one in staged if (one.file.date, one.file.type) in anew]
        placed = [*as_they_are, *self._rewritten(staging, others, old, lost)]
        staging.place(placed)
        # From here on files lie in their place: what fails removes them, what is killed leaves them to `sweep`.
        n_new = n_events - n_duplicate - n_replaced - n_overlapped
        commit = Commit(
            "append",
            self._clock(),
            tuple(one.file for one in placed),
            tuple(file.path for file in old),
            COLUMNS,
            {
                **info,
                "n_new": n_new,
                "n_duplicate": n_duplicate,
                "n_replaced": n_replaced,
                "n_overlapped": n_overlapped,
                "n_superseded": n_superseded,
            },
        )
        if not self._committed(commit):
            staging.take_back(placed)
            return None
        return Appended(n_events, n_new, n_duplicate, n_replaced, len(placed), n_overlapped, n_superseded)

    def _rewritten(
        self, staging: Staging, staged: Sequence[Staged], old: Sequence[StoredFile], lost: Lost
    ) -> list[Staged]:
        """What counts of staged files and of stored ones, as new files."""
        n_rows = sum(one.file.n_rows for one in staged) - sum(lost.n_staged.values())
        n_rows += sum(file.n_rows for file in old) - sum(lost.n_stored.values())
        n_bytes = sum(one.file.n_bytes for one in staged) + sum(file.n_bytes for file in old)
        if not n_rows:
            return []
        parts = []
        if staged:
            rows = staging.rows_of(staged)
            parts.append(rows if lost.rows is None or not lost.n_staged else winners(rows, lost.rows))
        if old and lost.rows is not None:
            reading.check_rewritable(self.url, self._state)
            parts.append(unreplaced(reading.scan(self._spark, self._files, old), lost.rows))
        return staging.write_final(reduce(DataFrame.unionAll, parts), n_rows, n_bytes)

    def _committed(self, commit: Commit) -> bool:
        """False: another commit came first, and this one's files are of no use any more."""
        try:
            state = self._log.try_commit(self._state, commit)
        except NotCommittedError:
            Staging(self._spark, self._files).discard(commit.added)
            raise
        if state is None:
            return False
        self._state = state
        return True

    def _copies(self, staging: Staging, staged: Sequence[Staged], near: Sequence[StoredFile], attempt: int) -> Lost:
        """Which staged rows, and which rows of the files `near`, do not count."""
        rows = staging.rows_of(staged)
        known = reading.scan(self._spark, self._files, near) if near else None
        with job_errors(f"{self.url}: cannot be read"):
            among = staging.keep(suspects(rows, known), f"suspects-{attempt}")
            most = among.agg(sf.max(N_STAGED)).first()
            if most is None or most[0] is None:
                return Lost(None, {}, {})
            lost = staging.keep(losers(rows, known, among, self._precedence, tied=most[0] > 1), f"losers-{attempt}")
            found = lost.groupBy(FILE, STAGED).count().collect()
        return lost_among(lost, found, staging, near)

    def _coarser(
        self, staging: Staging, staged: Sequence[Staged], near: Sequence[StoredFile], copies: Lost, attempt: int
    ) -> Lost:
        """Which samples of RRDs, of those that are no copies, do not count for their resolution."""
        new = [one for one in staged if one.file.type == SAMPLE]
        if not new:
            return Lost(None, {}, {})
        known = reading.scan(self._spark, self._files, near) if near else None
        with job_errors(f"{self.url}: cannot be read"):
            found = left_out_rows(staging.rows_of(new), known)
            if found is None:
                return Lost(None, {}, {})
            if copies.rows is not None:
                same = reduce(Column.__and__, (found[name].eqNullSafe(copies.rows[name]) for name in found.columns))
                found = found.join(copies.rows, same, "left_anti")
            lost = staging.keep(found, f"coarser-{attempt}")
            counted = lost.groupBy(FILE, STAGED).count().collect()
        return lost_among(lost, counted, staging, near)


__all__ = ["COPY_REACH_MS", "Appended", "Deleted", "EventStore", "StoredFile"]
