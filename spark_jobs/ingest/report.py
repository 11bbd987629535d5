"""What an ingest read, skipped and found wrong: counted, with the first places, for people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from rich.console import Console

from app.console import inert
from app.tables import Column, Fit, number, print_table
from collectors.base import Problem
from spark_jobs.ingest.rows import FILE

N_PLACES = 3
"""First places that are told of each count."""

MAX_FILES, MAX_PROBLEMS = 10_000, 1_000
"""Files and problems that are told one by one, as JSON; beside them stands how many there were."""

N_SHOWN = 20
"""Files that people are shown: those without an event first."""

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
    texts: tuple[str, ...] = ()
    """Of problems, what was told at each of the places."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file that was read."""

    place: str
    kind: str
    n_bytes: int
    n_events: int
    """As the file gave them, copies of known events among them."""
    note: str | None = None
    """Why it gave none."""


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
    files: tuple[FileRead, ...] = ()
    """Those that were read: without an event first, then in the order of their names; no more than MAX_FILES."""
    problem_list: tuple[Problem, ...] = ()
    """In the order of their places, no more than MAX_PROBLEMS."""
    n_new: int = 0
    n_duplicate: int = 0
    n_replaced: int = 0
    n_overlapped: int = 0
    """Coarser samples of RRDs that were left out, as finer ones tell of their time."""
    n_superseded: int = 0
    """Stored coarser samples that finer ones took the place of."""
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
    def n_problems(self) -> int:
        """All that were told."""
        return sum(count.n for count in self.problems)

    @property
    def exit_code(self) -> int:
        """0 when everything there was to read was read; 1 when nothing was, or a file could not be."""
        return 0 if self.n_read and not self.n_unreadable else 1

    def to_json(self) -> str:
        """One object."""
        told = {**asdict(self), "events": dict(self.events), "n_read": self.n_read, "n_problems": self.n_problems}
        return json.dumps(told, ensure_ascii=False)

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
        if self.read:
            read = [(count.name, f"{count.n:,}", _size(count.n_bytes)) for count in self.read]
            print_table(console, (Column("kind"), number("files"), number("size")), read, title="Read")
        self._print_files(console)
        if self.skipped:
            skipped = [(count.name, f"{count.n:,}", "\n".join(count.places)) for count in self.skipped]
            print_table(console, _columns("why", "files"), skipped, title="Skipped")
        if self.problems:
            problems = []
            for count in self.problems:
                texts = count.texts or ("",) * len(count.places)
                told = (f"{place}: {text}" if text else place for place, text in zip(count.places, texts, strict=True))
                problems.append((count.name, f"{count.n:,}", "\n".join(map(inert, told))))
            print_table(console, _columns("source and kind", "problems"), problems, title="Problems")
        events = [(name, f"{n:,}") for name, n in sorted(self.events.items())]
        print_table(console, (Column("type"), number("events")), events, title="Events")
        console.print(
            f"{self.n_read:,} files read; {self.n_new:,} events are new, {self.n_duplicate:,} were known"
            f" ({self.n_replaced:,} replaced), in {self.n_stored_files:,} new files of the store."
        )
        if self.n_overlapped or self.n_superseded:
            console.print(
                f"Of coarser archives of RRDs {self.n_overlapped:,} samples were left out, as finer ones tell of their"
                f" time; {self.n_superseded:,} stored ones made way for finer ones."
            )

    def _print_files(self, console: Console) -> None:
        if not self.files:
            return
        files = [(file.place, f"{file.n_events:,}", file.note or "") for file in self.files[:N_SHOWN]]
        columns = (Column("file", Fit.WRAP, 24), number("events"), Column("why none", Fit.WRAP, 16))
        print_table(console, columns, files, title="Files")
        if self.n_read > N_SHOWN:
            console.print(f"... and {self.n_read - N_SHOWN:,} more: --format json tells up to {MAX_FILES:,}")


def _columns(name: str, counted: str) -> tuple[Column, ...]:
    return Column(name, Fit.WRAP, 16), number(counted), Column("first of them", Fit.WRAP, 24)


def told_files(parsed: DataFrame) -> tuple[FileRead, ...]:
    """The files of parsed ones that were read, as `IngestReport.files` has them."""
    files = parsed.where((sf.col("part") == FILE) & sf.col("message").isNull())
    first = files.orderBy(sf.col("n_events") > 0, "place").limit(MAX_FILES)
    rows = first.select("place", "kind", "n_bytes", "n_events", "note").collect()
    return tuple(FileRead(*row) for row in rows)


def told_problems(problems: DataFrame) -> tuple[Problem, ...]:
    """The first problems, as `IngestReport.problem_list` has them."""
    rows = problems.orderBy("place", "kind", "message").limit(MAX_PROBLEMS).collect()
    return tuple(Problem(row["source"], row["place"], row["kind"], row["message"]) for row in rows)


def counted_files(parsed: DataFrame) -> tuple[tuple[Count, ...], tuple[Count, ...]]:
    """(files read by kind, files skipped by reason) of parsed files."""
    files = parsed.where(sf.col("part") == FILE)
    read = _counts(files.where("message IS NULL"), [sf.col("kind")])
    name = sf.when(sf.col("kind").isNull(), sf.col("message")).otherwise(sf.concat("kind", sf.lit(": "), "message"))
    return read, _counts(files.where("message IS NOT NULL"), [name])


def counted_problems(problems: DataFrame) -> tuple[Count, ...]:
    """Problems by source and kind."""
    return _counts(problems, [sf.concat("source", sf.lit(": "), "kind")], with_texts=True)


def merged(*several: Iterable[Count]) -> tuple[Count, ...]:
    """Counts of equal names added up, in the order of names."""
    found: dict[str, Count] = {}
    for count in (count for counts in several for count in counts):
        known = found.get(count.name, Count(count.name, 0))
        first = sorted({*_first_of(known), *_first_of(count)})[:N_PLACES]
        places, texts = tuple(place for place, _ in first), tuple(text for _, text in first)
        n_bytes = known.n_bytes + count.n_bytes
        found[count.name] = Count(count.name, known.n + count.n, places, n_bytes, texts if any(texts) else ())
    return tuple(found[name] for name in sorted(found))


def counted(named_places: Iterable[tuple[str, str]]) -> tuple[Count, ...]:
    """Counts of (name, place)."""
    by_name: dict[str, list[str]] = {}
    for name, place in named_places:
        by_name.setdefault(name, []).append(place)
    return tuple(Count(name, len(places), tuple(sorted(places)[:N_PLACES])) for name, places in sorted(by_name.items()))


def _first_of(count: Count) -> list[tuple[str, str]]:
    return list(zip(count.places, count.texts or ("",) * len(count.places), strict=True))


def _counts(rows: DataFrame, name: Sequence[Any], *, with_texts: bool = False) -> tuple[Count, ...]:
    """Rows counted by a name; no more than N_PLACES places of each leave the executors, with their texts or without."""
    has_bytes = "n_bytes" in rows.columns
    text = sf.col("message") if with_texts else sf.lit("")
    one = sf.struct(sf.col("place").alias("place"), text.alias("text"))
    first = sf.slice(sf.array_sort(sf.collect_set(one)), 1, N_PLACES)
    narrow = rows.select(
        name[0].alias("name"), "place", *(["message"] if with_texts else []),
        (sf.col("n_bytes") if has_bytes else sf.lit(0)).alias("n_bytes"),
    )  # fmt: skip
    # Places of each partition first: a million of one kind never come together.
    local = narrow.groupBy("name", sf.spark_partition_id().alias("part_id")).agg(
        sf.count("*").alias("n"), sf.sum("n_bytes").alias("n_bytes"), first.alias("first")
    )
    whole = local.groupBy("name").agg(
        sf.sum("n").alias("n"),
        sf.sum("n_bytes").alias("n_bytes"),
        sf.slice(sf.array_sort(sf.flatten(sf.collect_list("first"))), 1, N_PLACES).alias("first"),
    )
    found = whole.orderBy("name").limit(MAX_ROWS).collect()
    return tuple(
        Count(
            row["name"],
            row["n"],
            tuple(one["place"] for one in row["first"]),
            row["n_bytes"] or 0,
            tuple(one["text"] for one in row["first"]) if with_texts else (),
        )
        for row in found
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


__all__ = [
    "Count",
    "FileRead",
    "IngestReport",
    "counted",
    "counted_files",
    "counted_problems",
    "merged",
    "told_files",
    "told_problems",
]
