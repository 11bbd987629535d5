"""Rows that do not count: copies, and samples that finer ones take the place of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Row

from app.event_store.commits import StoredFile
from spark_jobs.event_store.staging import Staging


@dataclass(frozen=True)
class Lost:
    """What does not count."""

    rows: DataFrame | None
    """As `losers` gives them; None: there are none."""
    n_staged: Mapping[str, int]
    """By the path of a staged file: rows that change nothing."""
    n_stored: Mapping[str, int]
    """By the path of a stored file: events that a better copy or finer samples replace."""

    def __or__(self, other: Lost) -> Lost:
        frames = [one.rows for one in (self, other) if one.rows is not None]
        rows = reduce(DataFrame.unionByName, frames) if frames else None
        return Lost(rows, _added_up(self.n_staged, other.n_staged), _added_up(self.n_stored, other.n_stored))


def _added_up(*counts: Mapping[str, int]) -> Mapping[str, int]:
    return sum(map(Counter, counts), Counter[str]())


def lost_among(rows: DataFrame, counted: Sequence[Row], staging: Staging, near: Sequence[StoredFile]) -> Lost:
    """Of rows as `losers` gives them, counted by FILE and STAGED."""
    by_name = {file.path.rpartition("/")[2]: file.path for file in near}
    of_staged = {staging.path + row[1].partition(staging.path)[2]: row[2] for row in counted if row[0] is None}
    return Lost(rows, of_staged, {by_name[row[0]]: row[2] for row in counted if row[0] is not None})


__all__ = ["Lost", "lost_among"]
