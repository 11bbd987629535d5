"""The folder of an event store on this machine, and how one is named."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from app.event_store.errors import StoreError

_SCHEME = "file://"
_PATTERN = frozenset("*?[]{}\\")


def rooted(url: str) -> str:
    """The URL of a folder: a plain path is one of this machine. Raises StoreError for none."""
    if not url.strip():
        raise StoreError(
            "event store: found an empty URL; expected a folder, as /data/events or hdfs://master:8020/events"
        )
    if found := sorted(set(url) & _PATTERN):
        raise StoreError(f"{url}: found {' '.join(found)}, which Hadoop reads as a pattern; expected a name without")
    if "://" not in url:
        return f"{_SCHEME}{Path(url).expanduser().absolute()}"
    return url.rstrip("/")


def is_here(url: str) -> bool:
    """Whether the store at a URL is on this machine. Raises StoreError as `rooted`."""
    return rooted(url).startswith(f"{_SCHEME}/")


class LocalFolder:
    """As Spark's `file_system.StoreFiles` reads it; raises OSError."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root = Path(url.removeprefix(_SCHEME))

    def full(self, path: str) -> str:
        """The path with the store's URL before it."""
        return f"{self.url}/{path}"

    def names(self, folder: str) -> list[str]:
        """What stands directly in a folder, in order; an absent folder is empty."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in (self._root / folder).iterdir())
        return []

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        return (self._root / path).read_bytes()

    def path(self, path: str) -> Path:
        """Of a file of the store."""
        return self._root / path


__all__ = ["LocalFolder", "is_here", "rooted"]
