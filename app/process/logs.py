"""Structured logs of the process itself, on standard error."""

from __future__ import annotations

import logging
import sys

import structlog

from app.console import inert
from app.settings import Log


def harmless(_logger: object, _level: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Names of jobs and files reach the log: a line stays one line, and no character of theirs steers the terminal."""
    return {name: inert(value) if name == "exception" else _harmless(value) for name, value in fields.items()}


def _harmless(value: object) -> object:
    return inert(value).replace("\n", "\\n") if isinstance(value, str) else value


def configure_logs(settings: Log) -> None:
    """Console lines for people or JSON lines for machines; libraries speak up from warnings on."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            harmless,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
