"""Small files become few: what is merged, decided from the list of files alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from app.event_store.commits import StoredFile


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files of one date and type that become one file."""

    files: tuple[StoredFile, ...]

    @property
    def n_bytes(self) -> int:
        """Of all files; the one they become is smaller."""
        return sum(file.n_bytes for file in self.files)

    @property
    def n_rows(self) -> int:
        """Of all files."""
        return sum(file.n_rows for file in self.files)


def bundles_of(files: Collection[StoredFile], target_bytes: int) -> list[Bundle]:
    """Neighbours in time of one date and type, as many as are not larger than `target_bytes` together.

    What is left alone has no neighbour that it fits together with: merging again finds nothing to do.
    """
    ordered = sorted(files, key=lambda file: (file.date, file.type, file.min_lo_ms, file.path))
    bundles: list[Bundle] = []
    for _, group in groupby(ordered, key=lambda file: (file.date, file.type)):
        bundle: list[StoredFile] = []
        n_bytes = 0
        for file in group:
            if bundle and n_bytes + file.n_bytes > target_bytes:
                bundles.append(Bundle(tuple(bundle)))
                bundle, n_bytes = [], 0
            bundle.append(file)
            n_bytes += file.n_bytes
        bundles.append(Bundle(tuple(bundle)))
    return [bundle for bundle in bundles if len(bundle.files) > 1]


def rounds_of(bundles: Collection[Bundle], n_bytes: int) -> Iterator[list[Bundle]]:
    """The bundles in parts of about `n_bytes`: each is a commit of its own: a stop loses one."""
    chosen: list[Bundle] = []
    for bundle in bundles:
        if chosen and sum(one.n_bytes for one in chosen) + bundle.n_bytes > n_bytes:
            yield chosen
            chosen = []
        chosen.append(bundle)
    if chosen:
        yield chosen
