"""Run state that several threads can advance at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import pyarrow as pa

from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Runtime
from engine.stream.columns import StreamColumns


class Divided(ABC):
    """A `Runtime` made of others, each of which has a part of every batch, or of some.

    A class to inherit from: whether something is one is asked at every batch, which a protocol answers slowly.
    """

    @property
    @abstractmethod
    def runtimes(self) -> list[Runtime]:
        """Those that it is made of."""

    @abstractmethod
    def parts(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """What `advance` does, in parts: each in whatever thread; the rows in the order of the parts."""

    @abstractmethod
    def divide_ahead(self, stream: StreamColumns, submit: Callable[[Callable[[], object]], Future[object]]) -> None:
        """Begin to divide a batch before it is known whether `parts` will be asked for."""

    @abstractmethod
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`: the rows come part by part."""

    @abstractmethod
    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""

    @abstractmethod
    def save(self) -> dict[str, pa.Table]:
        """See `Runtime.save`."""

    @abstractmethod
    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save`, or the query's runtime in one piece, returned."""

    @property
    def n_rows(self) -> int:
        """Events kept, as often as they are."""
        return sum(runtime.n_rows for runtime in self.runtimes)

    @property
    @abstractmethod
    def n_rejected(self) -> int:
        """See `Runtime`."""

    @property
    @abstractmethod
    def n_unfinished(self) -> int:
        """See `Runtime`."""


__all__ = ["Divided"]
