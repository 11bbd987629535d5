"""An event counts once: which staged rows are new, which are copies, which stored rows a better copy replaces.

Of copies from several sources the one whose source stands first in the precedence is kept whole, whatever came first;
its attributes are not completed from the others, as then the result would depend on the order in which they came. Of
copies from one source the stored one stays; within a batch the first in stream order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.event_store.commits import StoredFile
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.event_store.staging import ROW, TIE, Group

FILE = "file__"
RANK = "rank__"
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


def with_copies(files: Iterable[StoredFile], groups: Sequence[Group], reach_ms: int) -> list[StoredFile]:
    """The files that may hold a copy of an event of these groups: of its type, `reach_ms` or less away in time."""
    by_type: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_type[group.type].append(group)
    return [
        file
        for file in files
        if any(
            group.min_lo_ms - reach_ms <= file.max_lo_ms and file.min_lo_ms <= group.max_lo_ms + reach_ms
            for group in by_type.get(file.type, ())
        )
    ]


def losers(raw: DataFrame, stored: DataFrame | None, precedence: Precedence) -> DataFrame:
    """Rows that do not count: staged ones (ROW is their number) and stored ones (FILE is their file), by _KEY.

    `raw`: staged rows. `stored`: rows of files that may hold copies, with the columns _KEY, SOURCE and FILE.
    """
    staged = raw.select(*_WHICH, ROW, TIE, sf.lit(None).cast("string").alias(FILE))
    if stored is not None:
        known = stored.join(raw.select(*_KEY).distinct(), list(_KEY), "left_semi")
        staged = staged.unionByName(known.select(*_KEY, SOURCE, FILE), allowMissingColumns=True)
    same_event = Window.partitionBy(*_KEY).orderBy(
        precedence.rank(),
        sf.col(FILE).isNull(),  # of equal sources the stored one
        *(sf.col(name) for name in ("t_lo_ms", "t_hi_ms", "source_rank", "source_seq", TIE, ROW)),
    )
    numbered = staged.withColumn(RANK, sf.row_number().over(same_event))
    return numbered.filter(sf.col(RANK) > 1).select(*_KEY, ROW, FILE)


def winners(raw: DataFrame, lost: DataFrame) -> DataFrame:
    """The staged rows that count."""
    rows = lost.filter(sf.col(FILE).isNull()).select(ROW)
    return raw.join(rows, ROW, "left_anti")


def unreplaced(stored: DataFrame, lost: DataFrame) -> DataFrame:
    """The rows of files to be rewritten that no better copy replaces."""
    gone = lost.filter(sf.col(FILE).isNotNull()).select(*_KEY)
    return stored.join(gone, list(_KEY), "left_anti")
