"""A branch of a union: its steps are left out when nothing can come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Runtime
from engine.matching.quiet import QuietSteps
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.values import with_own_memory


class UnionBranch:
    """One branch."""

    def __init__(self, plan: Plan, runtime: Runtime) -> None:
        self._runtime = runtime
        self._quiet = QuietSteps(plan.within_ms)
        self._state: dict[str, pa.Table] | None = None
        self._is_lent = False

    @property
    def runtime(self) -> Runtime:
        """The runtime itself: whoever asks for it may change it at any time."""
        self._is_lent = True
        return self._runtime

    @property
    def n_rows(self) -> int:
        """See `Runtime.n_rows`."""
        return self._runtime.n_rows

    @property
    def n_rejected(self) -> int:
        """See `Runtime.n_rejected`."""
        return self._runtime.n_rejected

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._runtime.n_unfinished

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        # One with events is not left out: branches that did not see them would number later ones otherwise.
        if not len(stream) and self._quiet.may_leave_out(self._runtime, watermark_ms):
            return []
        self._quiet.advanced(watermark_ms)
        self._state = None
        return self._runtime.advance(stream, watermark_ms)

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        return self._runtime.output_watermark_ms(watermark_ms)

    def save(self) -> dict[str, pa.Table]:
        """See `Runtime.save`; the same tables until it has advanced."""
        if self._state is None or self._is_lent:
            self._state = {part: with_own_memory(table) for part, table in self._runtime.save().items()}
        return dict(self._state)

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """See `Runtime.restore`."""
        self._state = None
        self._runtime.restore(state)


__all__ = ["UnionBranch"]
