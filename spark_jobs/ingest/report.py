"""What an ingest read, skipped and found wrong: counted, with the first places, for people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from app.console import inert
from spark_jobs.ingest.rows import FILE

N_PLACES = 3
"""First places that are told of each count."""

MAX_ROWS = 200
"""Different counts of one kind that are told; what stands behind them is counted together."""

UNREADABLE = frozenset({"unreadable", "collector_failed", "gone"})
"""Reasons of a skipped file that are failures: it should have been read."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often, and where first (in the order of names)."""

    name: str
    n: int
    places: tuple[str, ...] = ()
    n_bytes: int = 0


@dataclass(frozen=True)
class IngestReport:
    """One ingest."""

    read: tuple[Count, ...] = ()
    """Files by kind."""
    skipped: tuple[Count, ...] = ()
    """Files by reason."""
    events: Mapping[str, int] = field(default_factory=dict)
    """By type, copies of an event within this ingest among them."""
    problems: tuple[Count, ...] = ()
    """By source and kind."""
    n_new: int = 0
    n_duplicate: int = 0
    n_replaced: int = 0
    n_stored_files: int = 0

    @property
    def n_read(self) -> int:
        """Files that were read."""
        return sum(count.n for count in self.read)

    @property
    def n_unreadable(self) -> int:
        """Files that should have been read, and could not."""
        return sum(count.n for count in self.skipped if count.name.rpartition(": ")[2] in UNREADABLE)

    @property
    def exit_code(self) -> int:
        """0 when everything there was to read was read; 1 when nothing was, or a file could not be."""
        return 0 if self.n_read and not self.n_unreadable else 1

    def to_json(self) -> str:
        """One object."""
        return json.dumps({**asdict(self), "events": dict(self.events)}, ensure_ascii=False)

    def info(self) -> dict[str, Any]:
        """For the commit: the counts without places."""
        return {
            "read": {count.name: count.n for count in self.read},
            "skipped": {count.name: count.n for count in self.skipped},
            "events": dict(self.events),
            "problems": {count.name: count.n for count in self.problems},
        }

    def print_to(self, console: Console) -> None:
        """As tables."""
        for title, first, counts in (
            ("Read", "kind", self.read),
            ("Skipped", "why", self.skipped),
            ("Problems", "source and kind", self.problems),
        ):
            if not counts:
                continue
            table = Table(first, "files" if title != "Problems" else "n", "first", title=title, title_justify="left")
            for count in counts:
                places = "\n".join(inert(place) for place in count.places) if title != "Read" else _size(count.n_bytes)
                table.add_row(inert(count.name), f"{count.n:,}", places)
            console.print(table)
        table = Table("event", "n", title="Events", title_justify="left")
        for name, n in sorted(self.events.items()):
            table.add_row(name, f"{n:,}")
        console.print(table)
        console.print(
            f"{self.n_read:,} files read; {self.n_new:,} events are new, {self.n_duplicate:,} were known"
            f" ({self.n_replaced:,} replaced), in {self.n_stored_files:,} new files of the store."
        )


def counted_files(parsed: DataFrame) -> tuple[tuple[Count, ...], tuple[Count, ...]]:
    """(files read by kind, files skipped by reason) of parsed files."""
    files = parsed.where(sf.col("part") == FILE)
    read = _counts(files.where("message IS NULL"), [sf.col("kind")])
    name = sf.when(sf.col("kind").isNull(), sf.col("message")).otherwise(sf.concat("kind", sf.lit(": "), "message"))
    return read, _counts(files.where("message IS NOT NULL"), [name])


def counted_problems(problems: DataFrame) -> tuple[Count, ...]:
    """Problems by source and kind."""
    return _counts(problems, [sf.concat("source", sf.lit(": "), "kind")])


def merged(*several: Iterable[Count]) -> tuple[Count, ...]:
    """Counts of equal names added up, in the order of names."""
    found: dict[str, Count] = {}
    for count in (count for counts in several for count in counts):
        known = found.get(count.name, Count(count.name, 0))
        places = tuple(sorted({*known.places, *count.places})[:N_PLACES])
        found[count.name] = Count(count.name, known.n + count.n, places, known.n_bytes + count.n_bytes)
    return tuple(found[name] for name in sorted(found))


def counted(named_places: Iterable[tuple[str, str]]) -> tuple[Count, ...]:
    """Counts of (name, place)."""
    by_name: dict[str, list[str]] = {}
    for name, place in named_places:
        by_name.setdefault(name, []).append(place)
    return tuple(Count(name, len(places), tuple(sorted(places)[:N_PLACES])) for name, places in sorted(by_name.items()))


def _counts(rows: DataFrame, name: Sequence[Any]) -> tuple[Count, ...]:
    """Rows counted by a name; no more than N_PLACES places of each leave the executors."""
    has_bytes = "n_bytes" in rows.columns
    first = sf.slice(sf.array_sort(sf.collect_set("place")), 1, N_PLACES)
    narrow = rows.select(
        name[0].alias("name"), "place", (sf.col("n_bytes") if has_bytes else sf.lit(0)).alias("n_bytes")
    )
    # Places of each partition first: a million of one kind never come together.
    local = narrow.groupBy("name", sf.spark_partition_id().alias("part_id")).agg(
        sf.count("*").alias("n"), sf.sum("n_bytes").alias("n_bytes"), first.alias("places")
    )
    whole = local.groupBy("name").agg(
        sf.sum("n").alias("n"),
        sf.sum("n_bytes").alias("n_bytes"),
        sf.slice(sf.array_sort(sf.flatten(sf.collect_list("places"))), 1, N_PLACES).alias("places"),
    )
    found = whole.orderBy("name").limit(MAX_ROWS).collect()
    return tuple(Count(row["name"], row["n"], tuple(row["places"]), row["n_bytes"] or 0) for row in found)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


__all__ = ["Count", "IngestReport", "counted", "counted_files", "counted_problems", "merged"]
