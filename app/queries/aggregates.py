"""User-defined aggregates of the configuration: functions of installed modules, by `module:function`.

Naming a module in the configuration executes its code with the rights of the process, as installing it would: the file
is the administrator's. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

import engine
from app.errors import ConfigProblem
from app.without_pandas import allow_pandas
from engine.errors import EngineError


def register_configured(names: Iterable[str], key: str = "queries.aggregates") -> list[ConfigProblem]:
    """Import and register each `module:function`, under the function's name; returns what is wrong with `key`."""
    problems: list[ConfigProblem] = []
    for name in names:
        module, colon, function = name.partition(":")
        if not (colon and module and function.isidentifier()):
            problems.append(ConfigProblem(key, repr(name), "module:function, as in my_metrics:entropy"))
            continue
        allow_pandas()
        try:
            kernel = getattr(import_module(module), function)
        except (ImportError, AttributeError) as error:
            expected = "a function of a module that is installed beside the program"
            problems.append(ConfigProblem(key, f"{name!r}, but {error}", expected))
            continue
        try:
            engine.register_aggregate(function, kernel)
        except (EngineError, TypeError) as error:
            problems.append(ConfigProblem(key, f"{name!r}: {error}", "a function of an array of numbers"))
    return problems


__all__ = ["register_configured"]
