"""Files of certificates that servers are checked against, as settings name them."""

from __future__ import annotations

from pathlib import Path

from app.errors import ConfigError, ConfigProblem
from collectors.base import OptionError
from collectors.network.http_attempt import check_ca_file


def checked_ca_file(path: Path | None, key: str) -> Path | None:
    """`path`, when it is one that can be used; raises ConfigError naming the key."""
    try:
        if path is not None:
            check_ca_file(path)
    except OptionError as error:
        problem = ConfigProblem(key, str(error), "a readable PEM file with the certificates to trust")
        raise ConfigError("configuration", (problem,)) from None
    return path
