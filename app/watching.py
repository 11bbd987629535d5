"""Whether what a store says holds now: since when nobody watches, and which sources were not polled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.store.api import Store

PATIENCE_MS = 60_000
"""A live process writes with each step, every few seconds also when nothing happens."""
PATIENCE_INTERVALS = 4
"""A source is given so many of its intervals, when these are longer."""

SHOWN = 20
"""Of the sources at most so many are named."""


@dataclass(frozen=True, slots=True)
class Unpolled:
    """A source of which nothing is known since its last successful poll; None: there was none."""

    source: str
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class Watch:
    """How the store's content relates to now."""

    now_ms: int
    written_ms: int | None
    """The last step that was stored; None: there was none."""
    is_replay: bool
    """It was written by the replay of a recording: `written_ms` is a time of the recording."""
    unpolled: tuple[Unpolled, ...]

    @property
    def is_alive(self) -> bool:
        """Whether a live process writes."""
        return not self.is_replay and self.written_ms is not None and self.now_ms - self.written_ms <= PATIENCE_MS

    @property
    def is_known(self) -> bool:
        """Whether the state as of `as_of_ms` is known: only then is silence calm."""
        return self.is_replay or (self.is_alive and not self.unpolled)

    @property
    def as_of_ms(self) -> int | None:
        """The time that the store's content speaks of."""
        return self.now_ms if self.is_alive else self.written_ms


def watched(store: Store, now_ms: int) -> Watch:
    """Look at the store; raises StoreError."""
    process, replayed = store.process_status(), store.replay_status()
    written_ms = None if process is None else process.updated_ms
    # A live process that went on with the store of a replay has written later than any time of the recording.
    is_replay = replayed is not None and (written_ms is None or written_ms <= replayed.updated_ms)
    unpolled = []
    for source in store.source_status():
        patience_ms = max(PATIENCE_MS, PATIENCE_INTERVALS * source.interval_ms)
        heard_ms = source.succeeded_ms if process is None else source.succeeded_ms or process.value.get("started_ms")
        if not is_replay and (heard_ms is None or now_ms - heard_ms > patience_ms):
            unpolled.append(Unpolled(source.name, source.succeeded_ms))
    return Watch(now_ms, written_ms, is_replay, tuple(unpolled))


def unknown_text(watch: Watch, shown: Callable[[int], str]) -> str | None:
    """What is not known, since when; None where all is known. `shown` writes times; the text is plain."""
    if watch.is_known:
        return None
    if watch.written_ms is None:
        return "State unknown: no process has watched anything yet. Start clustercep run."
    if not watch.is_alive:
        text = f"State unknown since {shown(watch.written_ms)}: clustercep run has written nothing since then."
        return f"{text} Not polled: {_sources(watch, shown)}." if watch.unpolled else text
    return f"State unknown, as far as these sources tell it; they were not polled: {_sources(watch, shown)}."


def _sources(watch: Watch, shown: Callable[[int], str]) -> str:
    """`a, b since T; c ever`: those that fell silent together stand together."""
    together: dict[str, list[str]] = {}
    for source in watch.unpolled[:SHOWN]:
        since = "ever" if source.since_ms is None else f"since {shown(source.since_ms)}"
        together.setdefault(since, []).append(source.source)
    told = [f"{', '.join(names)} {since}" for since, names in together.items()]
    n_more = len(watch.unpolled) - SHOWN
    return "; ".join([*told, *([f"{n_more} more"] if n_more > 0 else [])])
