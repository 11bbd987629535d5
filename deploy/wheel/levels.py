"""Levels of x86-64 processors, as the psABI names them, with what code for them may use."""

from __future__ import annotations

_V2 = "cmov crc32 cx16 cx8 fxsr mmx popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
LEVELS = {
    "x86-64-v2": tuple(_V2.split()),
    "x86-64-v3": tuple(f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split()),
}
"""LLVM's names of the processors, and of their features. v3: Intel since Haswell (2013), AMD since Excavator (2015)."""

DEFAULT = "x86-64-v3"


def numba_environment(level: str) -> dict[str, str]:
    """With these variables Numba compiles for the level in place of this processor."""
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in LEVELS[level])}


__all__ = ["DEFAULT", "LEVELS", "numba_environment"]
