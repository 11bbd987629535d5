"""What options of several collectors have in common: durations and numbers within bounds, patterns of names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from collectors.base import OptionError


def check_not_negative(what: str, options: object, names: Iterable[str]) -> None:
    """Raise OptionError for the first of these options that is below 0; `what` has them, for its message."""
    for name in names:
        if (found := getattr(options, name)) < 0:
            raise OptionError(f"{what}: {name} is {found}; expected 0 or more")


def check_positive(what: str, options: object, names: Iterable[str]) -> None:
    """Raise OptionError for the first of these options that is 0 or less; `what` has them, for its message."""
    for name in names:
        if (found := getattr(options, name)) <= 0:
            raise OptionError(f"{what}: {name} is {found}; expected more than 0")


def compiled_pattern(what: str, options: object, name: str) -> re.Pattern[str]:
    """This option as a regular expression; raises OptionError where it is none."""
    pattern: str = getattr(options, name)
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionError(f"{what}: {name} {pattern!r} is no regular expression: {error}") from error


__all__ = ["check_not_negative", "check_positive", "compiled_pattern"]
