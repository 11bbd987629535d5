"""Which runs are never dropped, so that how runs go on can be learned while others are."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf


@leaf
def is_protected(start_ms, protected):
    """Whether runs that start then are of the sample that is never dropped: one of every `protected`, by a hash."""
    mixed = ((start_ms & 0x7FFFFFFF) * 0x5BD1E995) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0x7FFFFFFF
    return (mixed ^ (mixed >> 13)) % protected == 0


__all__ = ["is_protected"]
