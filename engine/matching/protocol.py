"""The one interface of the compiled runtimes: static plan apart from run state, events in, rows out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, runtime_checkable

import pyarrow as pa

from engine.matching.brake import Brake
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import RowSink
from engine.stream.columns import StreamColumns
from engine.stream.store import MovesBack


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one query from taking the process.

    `max_rows`: rows that one `advance` may return per query and thread (OUTPUT ALL, SETS); what is left out is reported
    as `capped`. `work_budget`: elementary search steps spent on one (first, last) pair of a collapsed or counted row
    before its count becomes a lower bound; where a pattern is no plain sequence, on one event of the stream, as far as
    the stream has paid for it (`engine.matching.work_account`): what is left out there is the same for every division
    into batches. Listing and counting of plain sequences together, and offers of events to runs, are paid for alike, in
    multiples of it; so are output forms of listed matches, which look at each match in each of its windows. What is
    left out there is the same for every division over precise events, but for counted rows with a negation at their
    end, for unions of which some branches have one there and others have not, and for types with a part of the key,
    whose events are shown to each partition that becomes known. `max_rows` and `max_listed` are limits of one
    `advance`. `max_listed`: matches of one `advance` that an output form is made from where it needs them listed,
    should that ever be more than has been paid for. `merge_runs`: runs whose future is the same go on as one (SASE+
    section 5.3); the matches are the same without it. `possibilities`: rows over imprecise events carry what P(at least
    one match) is evaluated from (`MatchRow.possible`); it costs time for each of them. `trend_overlap`: events of
    trends that overlap, and may come to themselves again through others, of which it is told apart whether a trend has
    them (0 to 10): time and memory double with each; beyond it counts are upper bounds. `n_sharing`: runtimes that
    share what one query's searches may cost, each having its part of it: the branches of a union. `brake`: of the
    runtime that these limits are given to, `for_one` makes one that fits.
    """

    max_rows: int = 100_000
    work_budget: int = 2_000_000
    max_listed: int = 1_000_000
    n_sharing: int = 1
    merge_runs: bool = True
    possibilities: bool = False
    trend_overlap: int = 6
    brake: Brake = field(default_factory=Brake, compare=False, repr=False)

    def for_one(self) -> Limits:
        """These limits for one runtime, which may take the longer the more is asked of it."""
        ordinary = Limits()
        times = max(1.0, self.max_rows / ordinary.max_rows, self.work_budget / ordinary.work_budget)
        return replace(self, brake=self.brake.anew(times))


class Runtime(Protocol):
    """Run state of one query over one stream."""

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """Take in a batch and return every row that is decided at this watermark.

        `stream`: events of any types in stream order, all with t_lo_ms < watermark_ms and none earlier in stream order
        than one given before; later batches have t_lo_ms >= watermark_ms.
        """
        ...

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """After `advance` to this watermark: no later row has a last event with t_lo below the result."""
        ...

    def save(self) -> dict[str, pa.Table]:
        """The state as Arrow tables of flat arrays."""
        ...

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        ...

    @property
    def n_rows(self) -> int:
        """Events kept."""
        ...

    @property
    def n_rejected(self) -> int:
        """Events that this runtime cannot evaluate (imprecise ones under skip till next match), so far."""
        ...

    @property
    def n_unfinished(self) -> int:
        """Searches that `work_budget` stopped so far: matches may be missing. Bounds on rows (`max_rows`, `max_listed`)
        count where no row says so."""
        ...


@runtime_checkable
class TakesSink(Protocol):
    """A runtime that hands rows over as they are found."""

    sink: RowSink | None
    """Takes rows that need not be returned; LIMIT and `limits.max_rows` are for those that are."""


@runtime_checkable
class SharesEvents(Protocol):
    """A runtime that may keep its events together with others that get the same batches."""

    def keeps(self) -> Hashable | None:
        """Equal for two runtimes that keep the same events whatever else they ask, so that one may `share` them.

        None for a query that keeps events for a reason of its own.
        """
        ...

    @property
    def is_shared(self) -> bool:
        """Whether another runtime uses the same events."""
        ...

    def share(self, other: Self, /) -> bool:
        """Use the events of another runtime, which advances with the same batches; False when it has kept others."""
        ...


@runtime_checkable
class SharesIntake(Protocol):
    """A runtime that may make of a batch what others make of it, too, whatever they do with it then."""

    def takes(self) -> Hashable:
        """Equal for runtimes that take in the same."""
        ...

    def take_with(self, others: Sequence[Self], /) -> None:
        """Make it once with these, which are given the same batches."""
        ...


@runtime_checkable
class EndsBeginning(Protocol):
    """A runtime in which matches that have begun can be followed while no more begin."""

    def begin_none_from(self, begin_ms: int) -> None:
        """After `restore`: no kept event of then or later begins a match. What is saved does not tell which may."""
        ...


class Movable(Runtime, Protocol):
    """A runtime whose watermark stays where it is, while its partitions move back under it as they grow: see
    `engine.matching.count_windows.runtime`."""

    def move_back(self, by: MovesBack, most: int) -> None:
        """Before a batch: times of kept events become earlier, by `most` at most. It is then given the next events of
        each partition, ordered by time, in [-most, 0), and the watermark 0."""
        ...
