"""What the logs of one container prove: which attempt it ran, and what its fetchers pulled from where.

A fetcher is given a host ("assigned"), pulls one map output after the other, and is freed. The period of a pull runs
from the later of the assignment and the end of the fetcher's previous pull in it, to the line that says the output was
read: a stall before the first byte counts. Hadoop 3 logs assignments at DEBUG only; the line that frees the fetcher
then says for how long it was assigned and to which host, so pulls wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from collectors.logs.client_faults import MAX_FAULTS, Fault, fault_of
from collectors.logs.client_faults import RELEVANT as OF_FAULTS
from collectors.logs.times import LogRecord

_ATTEMPT = r"attempt_\d+_\d+_[mr]_\d+_\d+"
ASSIGNED = re.compile(
    r"(?:Assigning (\S+?):\d+ with \d+ to|assigned \d+ of \d+ to (\S+?):\d+ to) ((?:local)?fetcher#\d+)"
)
FREED = re.compile(r"(\S+?):\d+ freed by ((?:local)?fetcher#\d+) in (\d+) ?ms")
ABOUT = re.compile(
    rf"((?:local)?fetcher#\d+) about to shuffle output of map ({_ATTEMPT}) decomp: \d+ len: (\d+) to \w+"
)
READ = re.compile(rf"Read (\d+) bytes from map-output for ({_ATTEMPT})")
FETCHER = re.compile(r"(?:local)?fetcher#\d+")
REDUCER = re.compile(rf"({_ATTEMPT})(?: Thread started|: Got \d+ )")
TASK = re.compile(rf"Task(?::| '| )({_ATTEMPT})(?:' (done)\.| )")

MAX_WAITING_PULLS = 10_000
MAX_FETCHERS = 1_000
MAX_ANNOUNCED = 1_000
MAX_DIGITS = 15

RELEVANT = (b"etcher", b"map-output for attempt_", b"Task 'attempt_", b"Task:attempt_", b"Task attempt_", *OF_FAULTS)
"""A line without one of these needs no parsing."""


@dataclass(slots=True)
class Pull:
    """A finished fetch of one map output."""

    map_attempt_id: str
    t_lo_ms: int
    t_hi_ms: int
    n_bytes: int | None
    place: int
    """Line in its file."""
    origin: str
    raw: str
    ordinal: int = 0
    """Among records that are equal in all else."""
    source_host: str | None = None
    period_ms: int | None = None


@dataclass(slots=True)
class _Fetcher:
    """One fetcher thread between being assigned a host and being freed."""

    host: str | None = None
    since_ms: int | None = None
    """Assignment, or the end of the last pull in it."""
    waiting: list[Pull] = field(default_factory=list)
    """Pulls whose host and start the freeing line will tell."""


@dataclass(slots=True)
class ContainerLog:
    """The state of one container's logs between polls."""

    attempt_id: str | None = None
    first_ms: int | None = None
    fetchers: dict[str, _Fetcher] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)
    """Map attempt -> compressed size that its header announced."""
    ready: list[Pull] = field(default_factory=list)
    """Pulls that are complete."""
    moved: list[Pull] = field(default_factory=list)
    """The same pulls at once, for the bytes they moved."""
    ends: list[tuple[str, int, int, int, str, str]] = field(default_factory=list)
    """(attempt, t_lo, t_hi, line, origin, raw) of tasks that say they are done."""
    last_key: list[Any] = field(default_factory=list)
    n_equal: int = 0
    n_dropped: int = 0
    faults: list[Fault] = field(default_factory=list)
    last_fault: list[Any] = field(default_factory=list)
    n_equal_faults: int = 0
    n_dropped_faults: int = 0
    is_done: bool = False
    """Whether its task has said that it is done."""

    def take(self, record: LogRecord, place: int, origin: str, raw: str) -> None:
        """Advance by one record."""
        message = record.message
        if found := READ.match(message):
            self._read(record, found[2], _number(found[1]), place, origin, raw)
        elif found := ABOUT.match(message):
            self._announce(found[2], _number(found[3]))
        elif found := ASSIGNED.match(message):
            self._assign(found[3], found[1] or found[2], record.t_lo_ms)
        elif found := FREED.match(message):
            self._free(found[2], found[1], record.t_hi_ms, _number(found[3]))
        elif record.logger == "EventFetcher" and (found := REDUCER.match(message)):
            self.attempt_id = found[1]
        elif record.logger == "Task" and (found := TASK.match(message)):
            self.attempt_id = found[1]
            if found[2]:
                self.is_done = True
                self.ends.append((found[1], record.t_lo_ms, record.t_hi_ms, place, origin, raw))
        elif told := fault_of(message):
            self._fault(record, *told, place, origin, raw)

    def waiting_since_ms(self) -> int | None:
        """Earliest time of a pull that cannot go out yet."""
        waiting = [pull.t_lo_ms for fetcher in self.fetchers.values() for pull in fetcher.waiting]
        if self.attempt_id is None:
            waiting += [pull.t_lo_ms for pull in self.ready + self.moved]
        return min(waiting, default=None)

    def abandon(self) -> None:
        """The log ends here: what waits goes out without host and period, which nothing will tell any more."""
        for fetcher in self.fetchers.values():
            self.ready += fetcher.waiting
            fetcher.waiting = []

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ContainerLog:
        """Back from `to_json`; raises TypeError or KeyError for anything else."""
        fields = dict(saved)
        fields["fetchers"] = {
            str(name): _Fetcher(f["host"], f["since_ms"], [Pull(**pull) for pull in f["waiting"]])
            for name, f in saved["fetchers"].items()
        }
        for name in ("ready", "moved"):
            fields[name] = [Pull(**pull) for pull in saved[name]]
        fields["faults"] = [Fault(**fault) for fault in saved.get("faults", ())]
        fields["ends"] = [tuple(end) for end in saved["ends"]]
        return cls(**fields)

    def _fault(
        self, record: LogRecord, kind: str, attributes: dict[str, Any], place: int, origin: str, raw: str
    ) -> None:
        key = [kind, record.t_lo_ms, *attributes.values()]
        self.n_equal_faults = self.n_equal_faults + 1 if key == self.last_fault else 0
        self.last_fault = key
        if len(self.faults) >= MAX_FAULTS:
            self.n_dropped_faults += 1
            return
        ordinal = self.n_equal_faults
        self.faults.append(Fault(kind, record.t_lo_ms, record.t_hi_ms, attributes, place, origin, raw, ordinal))

    def _fetcher(self, name: str) -> _Fetcher:
        if name not in self.fetchers and len(self.fetchers) >= MAX_FETCHERS:
            oldest = next(iter(self.fetchers))
            self.ready += self.fetchers.pop(oldest).waiting
        return self.fetchers.setdefault(name, _Fetcher())

    def _announce(self, map_attempt_id: str, n_bytes: int | None) -> None:
        if n_bytes is None:
            return
        if len(self.announced) >= MAX_ANNOUNCED:
            self.announced.pop(next(iter(self.announced)))
        self.announced[map_attempt_id] = n_bytes

    def _assign(self, name: str, host: str, t_ms: int) -> None:
        fetcher = self._fetcher(name)
        self.ready += fetcher.waiting  # its freeing line is missing
        fetcher.waiting = []
        fetcher.host, fetcher.since_ms = host, t_ms

    def _read(
        self, record: LogRecord, map_attempt_id: str, n_read: int | None, place: int, origin: str, raw: str
    ) -> None:
        n_bytes = self.announced.pop(map_attempt_id, None)
        if n_bytes is None and record.logger == "OnDiskMapOutput":
            n_bytes = n_read  # on disk the compressed bytes are counted, in memory the others
        key = [record.t_lo_ms, map_attempt_id, n_bytes]
        self.n_equal = self.n_equal + 1 if key == self.last_key else 0
        self.last_key = key
        pull = Pull(map_attempt_id, record.t_lo_ms, record.t_hi_ms, n_bytes, place, origin, raw, self.n_equal)
        if len(self.ready) + len(self.moved) >= MAX_WAITING_PULLS:
            self.n_dropped += 1
            return
        self.moved.append(pull)
        if not FETCHER.fullmatch(record.thread):
            self.ready.append(pull)  # without a thread nothing tells the fetcher
            return
        fetcher = self._fetcher(record.thread)
        if fetcher.since_ms is None or fetcher.waiting:
            fetcher.waiting.append(pull)
            return
        pull.source_host = fetcher.host
        pull.period_ms = max(0, record.t_lo_ms - fetcher.since_ms)
        fetcher.since_ms = record.t_lo_ms
        self.ready.append(pull)

    def _free(self, name: str, host: str, t_ms: int, assigned_for_ms: int | None) -> None:
        fetcher = self.fetchers.pop(name, None)
        if fetcher is None:
            return
        since_ms = None if assigned_for_ms is None else t_ms - assigned_for_ms
        for pull in fetcher.waiting:
            pull.source_host = host
            pull.period_ms = None if since_ms is None else max(0, pull.t_lo_ms - since_ms)
            since_ms = pull.t_lo_ms
            self.ready.append(pull)


def _number(digits: str) -> int | None:
    """The number a log line states, or None for one that no size or duration can have."""
    return int(digits) if len(digits) <= MAX_DIGITS else None
