"""What a job held, and how much of that it did not use: memory times time, as YARN accounts for it."""

from __future__ import annotations

from dataclasses import dataclass

from app.heuristics.corrected import container_bytes
from app.heuristics.figures import MIB, JobFigures

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Waste:
    """Of one job; None is not known."""

    held_gib_h: float | None
    """Size of the containers of all attempts, times how long they ran."""
    unused_gib_h: float | None
    """Of attempts that succeeded what lies above the peak of each."""
    lost_gib_h: float | None
    """Of attempts that failed or were killed all."""
    lost_h: float
    """How long attempts ran that failed or were killed."""
    n_unmeasured: int
    """Attempts whose run time or peak is not known: they are in none of the sums that need it."""

    @property
    def wasted_gib_h(self) -> float | None:
        """Unused and lost."""
        return None if self.unused_gib_h is None or self.lost_gib_h is None else self.unused_gib_h + self.lost_gib_h


def waste_of(job: JobFigures) -> Waste:
    """Of a job's containers; without its configuration only times are known."""
    sizes = {kind: container_bytes(job, kind) for kind in ("MAP", "REDUCE")}
    held = unused = lost = lost_ms = 0
    n_unmeasured = 0
    sizes_known = all(sizes[attempt.kind] is not None for attempt in job.attempts)
    any_peak = any(attempt.is_success and attempt.peak_bytes is not None for attempt in job.attempts)
    for attempt in job.attempts:
        size = sizes[attempt.kind] or 0
        if attempt.run_ms is None:
            n_unmeasured += 1
            continue
        held += size * attempt.run_ms
        if not attempt.is_success:
            lost += size * attempt.run_ms
            lost_ms += attempt.run_ms
        elif attempt.peak_bytes is None:
            n_unmeasured += 1
        else:
            unused += max(0, size - attempt.peak_bytes) * attempt.run_ms
    known = sizes_known and bool(job.attempts)
    has_success = any(attempt.is_success for attempt in job.attempts)
    return Waste(
        held_gib_h=gib_h(held) if known else None,
        unused_gib_h=gib_h(unused) if known and (any_peak or not has_success) else None,
        lost_gib_h=gib_h(lost) if known else None,
        lost_h=lost_ms / HOUR_MS,
        n_unmeasured=n_unmeasured,
    )


def gib_h(byte_ms: int) -> float:
    """Memory times time, in GiB times hours."""
    return byte_ms / (1024 * MIB) / HOUR_MS


__all__ = ["Waste", "gib_h", "waste_of"]
