"""What the commands have in common: the option that names the settings, and mistakes that are told and no traceback.

Exit codes: 0 fine, 1 a negative result, 2 a mistake of the user's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

from app.console import inert
from app.errors import AppError
from engine.errors import EngineError

if TYPE_CHECKING:
    from app.settings import Settings

EXIT_FAILED = 1
EXIT_MISTAKE = 2

P = ParamSpec("P")
R = TypeVar("R")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings; else $CLUSTERCEP_CONFIG, else config.yaml."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """On standard output, in ASCII."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=True))


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake ends in its message and exit code 2, not in a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (AppError, EngineError) as error:
            typer.echo(f"clustercep: {inert(error)}", err=True)
            raise typer.Exit(EXIT_MISTAKE) from None

    return run


def settings_of(config: Path | None, *, least_level: str | None = None) -> Settings:
    """Read the settings and configure the logs; `least_level` mutes what the progress bar already tells."""
    from app.config import load_settings
    from app.process.logs import configure_logs

    settings = load_settings(config)
    log = settings.log
    if least_level is not None and log.level in ("info", "warning"):
        log = log.model_copy(update={"level": least_level})
    configure_logs(log)
    return settings


__all__ = ["EXIT_FAILED", "EXIT_MISTAKE", "ConfigOption", "JsonOption", "friendly", "print_json", "settings_of"]
