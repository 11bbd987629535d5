"""User-defined aggregates by name: compiled functions of the values of an attribute, in order, without its NULLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from engine.errors import EngineError
from engine.kernels.compile.types import Float64Array
from engine.language.build_expression import AGGREGATES

Kernel = Callable[[Float64Array], float]
"""float64 (n,), n >= 1 -> float64; NaN is NULL. Better an `@njit` function: it is called once per match and term."""

_registered: dict[str, Kernel] = {}


def register_aggregate(name: str, kernel: Kernel) -> None:
    """Let queries call `name(b[].x)` wherever they may call avg; to be done before they are compiled.

    Raises EngineError for a name that queries cannot write or that is taken, and for a kernel that does not turn an
    array of doubles into a double.
    """
    lower = name.lower()
    if not lower.isidentifier() or not lower.isascii():
        raise EngineError(f"aggregate {name!r}: expected a name of letters, digits and _")
    if lower in AGGREGATES:
        raise EngineError(f"aggregate {name}: every engine has one of that name; choose another")
    if _registered.get(lower, kernel) is not kernel:
        raise EngineError(f"aggregate {name}: another one of that name is registered; choose another")
    result = kernel(np.array([1.0, 2.0]))
    if not isinstance(result, int | float | np.floating):
        raise EngineError(f"aggregate {name}: for [1.0, 2.0] it gave {result!r}; expected a number")
    _registered[lower] = kernel


def registered_aggregates() -> Mapping[str, Kernel]:
    """The kernels by name, in lower case."""
    return MappingProxyType(_registered)


def aggregates_of_lists() -> Mapping[str, Callable[[Sequence[float]], float]]:
    """The same as functions of sequences, as the oracle calls them."""

    def of_list(kernel: Kernel) -> Callable[[Sequence[float]], float]:
        return lambda values: float(kernel(np.array(values, np.float64)))

    return {name: of_list(kernel) for name, kernel in _registered.items()}


__all__ = ["Kernel", "aggregates_of_lists", "register_aggregate", "registered_aggregates"]
