"""An event counts once: which staged rows are new, which are copies, which stored rows a better copy replaces.

Of copies from several sources the one whose source stands first in the precedence is kept whole, whatever came first;
its attributes are not completed from the others, as then the result would depend on the order in which they came. Of
copies from one source the stored one stays; within a batch the first in stream order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from app.event_store.commits import StoredFile
from collectors.time_units import DAY_MS
from spark_jobs.event_store.reading import FILE_PATH
from spark_jobs.event_store.schema import EVENTS, SOURCE

FILE, STAGED, ROW = "file__", "staged__", "row__"
"""Columns that say which row it is: the name of its file in the store, or the path of its staged file and its place in
it."""
COPY_REACH_MS = DAY_MS
"""Copies of one event lie no further apart: sources differ by polling and by clocks that are off."""

HASH, N_STAGED = "hash__", "n_staged__"
_TIE, _RANK = "tie__", "rank__"
_KEY = ("type", "event_id")
_WHICH = ("type", "event_id", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", SOURCE)


@dataclass(frozen=True)
class Precedence:
    """Sources in order, the best first; others come after them in alphabetical order, unknown ones last."""

    sources: tuple[str, ...]

    def rank(self) -> Column:
        """Of a row, comparable: the place of its source."""
        place = sf.lit(len(self.sources))
        for number, name in reversed(list(enumerate(self.sources))):
            place = sf.when(sf.col(SOURCE) == name, sf.lit(number)).otherwise(place)
        return sf.struct(sf.col(SOURCE).isNull().alias("unknown"), place.alias("place"), sf.col(SOURCE).alias("name"))


def with_copies(files: Iterable[StoredFile], new: Iterable[StoredFile], reach_ms: int) -> list[StoredFile]:
    """The files that may hold a copy of an event of the new files: of its type, `reach_ms` or less away in time."""
    by_type: dict[str, list[StoredFile]] = defaultdict(list)
    for one in new:
        by_type[one.type].append(one)
    return [
        file
        for file in files
        if any(
            one.min_lo_ms - reach_ms <= file.max_lo_ms and file.min_lo_ms <= one.max_lo_ms + reach_ms
            for one in by_type.get(file.type, ())
        )
    ]


def suspects(staged: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Hashes of ids that staged rows share with each other or with stored ones, and how many staged rows have them.

    Numbers alone are compared, as copies are few: what looks like one is looked at more closely by `losers`.
    """
    ids = staged.select(_hash(), sf.lit(1).alias(N_STAGED))
    if stored is not None:
        ids = ids.unionAll(stored.select(_hash(), sf.lit(0)))
    counted = ids.groupBy(HASH).agg(sf.sum(N_STAGED).alias(N_STAGED), sf.count("*").alias("n"))
    return counted.filter((sf.col("n") > 1) & (sf.col(N_STAGED) > 0)).select(HASH, N_STAGED)


def losers(
    staged: DataFrame, stored: DataFrame | None, among: DataFrame, precedence: Precedence, *, tied: bool
) -> DataFrame:
    """Rows that do not count: staged ones (STAGED and ROW say which) and stored ones (FILE is their file), by _KEY.

    `staged`, `stored`: rows of files, these of files that may hold copies. `among`: the rows of `suspects`. `tied`:
    whether staged rows may share an id; all of their columns decide then where nothing else does.
    """
    which = (sf.col(FILE_PATH).alias(STAGED), sf.col("_metadata.row_index").alias(ROW))
    tie = sf.xxhash64(*EVENTS.names) if tied else sf.lit(0).cast("bigint")
    hashes = among.select(HASH)
    new = staged.select(*_WHICH, _hash(), *which, tie.alias(_TIE), sf.lit(None).cast("string").alias(FILE))
    new = new.join(hashes, HASH, "left_semi")
    if stored is not None:
        known = stored.select(*_KEY, SOURCE, _hash(), sf.col("_metadata.file_name").alias(FILE))
        new = new.unionByName(known.join(hashes, HASH, "left_semi"), allowMissingColumns=True)
    same_event = Window.partitionBy(HASH, *_KEY).orderBy(
        precedence.rank(),
        sf.col(FILE).isNull(),  # of equal sources the stored one
        *(sf.col(name) for name in ("t_lo_ms", "t_hi_ms", "source_rank", "source_seq", _TIE, STAGED, ROW)),
    )
    found = new.withColumn(_RANK, sf.row_number().over(same_event)).withColumn(
        N_STAGED, sf.count(STAGED).over(Window.partitionBy(HASH, *_KEY))
    )
    # Stored copies of an id that only looks like one of the staged ones are none of our business.
    return found.filter((sf.col(_RANK) > 1) & (sf.col(N_STAGED) > 0)).select(*_KEY, STAGED, ROW, FILE)


def winners(staged: DataFrame, lost: DataFrame) -> DataFrame:
    """The staged rows that count."""
    rows = lost.filter(sf.col(FILE).isNull()).select(STAGED, ROW)
    numbered = staged.withColumns({STAGED: sf.col(FILE_PATH), ROW: sf.col("_metadata.row_index")})
    return numbered.join(rows, [STAGED, ROW], "left_anti").select(*EVENTS.names)


def unreplaced(stored: DataFrame, lost: DataFrame) -> DataFrame:
    """The rows of files to be rewritten that no better copy replaces."""
    gone = lost.filter(sf.col(FILE).isNotNull()).select(*_KEY)
    return stored.join(gone, list(_KEY), "left_anti").select(*EVENTS.names)


def _hash() -> Column:
    return sf.xxhash64(*_KEY).alias(HASH)
