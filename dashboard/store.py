"""The dashboard's only way to settings, store and event log.

Views ask here; what they get are the typed rows of `app.store`. Whatever cannot be opened or read is an AppError with
its remedy, which `dashboard.main` shows in place of the page.
"""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from app.alerting.case import case_of
from app.alerting.dispatch.intervals import interval_section
from app.alerting.links import runbook_of
from app.alerting.operations import (
    MAX_NOTE_CHARS,
    SilenceEdit,
    acknowledge,
    assign,
    close,
    edit_silence,
    end_silence,
    hidden_by,
    send_again,
    silence,
    silence_matching,
    unacknowledge,
)
from app.alerting.silencing import read_matchers, silence_text, silencing, stands
from app.alerting.snapshots import snapshot_of
from app.chosen_store import DATABASE, STORE_VARIABLE, in_chosen_store, store_url
from app.clock import SystemClock
from app.config import CONFIG_VARIABLE, DEFAULT_FILE, load_settings
from app.errors import AppError, NotFoundError, StoreError
from app.event_log import EventLogReader
from app.event_store.folder import is_here
from app.event_store.reader import EventStoreReader
from app.live.assembly import event_log_folder, links_of
from app.reports.folder import LATEST, Report, read_report, reports_folder
from app.settings import Settings
from app.store.api import AlertDetails, AlertFilter, AlertPage, Cursor, Store, open_store
from app.store.models import (
    AlertChangeRow,
    AlertRow,
    EvidenceRow,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ProcessStatusRow,
    ReceiverStatusRow,
    ReportRow,
    SilenceChangeRow,
    SilenceRow,
    SourceStatusRow,
    StatisticRow,
)
from app.store.outbox import SentAgain
from app.store.status import OverloadFigures, ProcessStatus, QueryFigures, SheddingFigures
from app.watching import Watch, unknown_text, watched


def settings() -> Settings:
    """The settings that $CLUSTERCEP_CONFIG (else config.yaml) and the environment give now; raises ConfigError."""
    path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))
    return in_chosen_store(_settings(str(path), _state(path)))


def store() -> Store:
    """The store, opened once per process; raises StoreError, and AppError where $CLUSTERCEP_STORE holds none."""
    chosen = settings()
    file = chosen.store.directory / DATABASE
    if os.environ.get(STORE_VARIABLE) and not file.is_file():
        raise AppError(f"{chosen.store.directory}: no store there; expected a folder with {DATABASE}")
    return _store(store_url(chosen), _identity(file))


def live_store() -> Store | None:
    """As `store`; None where nobody has made its database yet, on this machine where it is looked for."""
    chosen = settings().store
    if chosen.url is None and chosen.url_file is None and not (chosen.directory / DATABASE).is_file():
        return None
    return store()


def history() -> EventStoreReader | None:
    """The event store that `clustercep ingest` fills, where it is on this machine; None elsewhere."""
    url = settings().event_store_url
    return _history(url) if is_here(url) else None


def is_history_here() -> bool:
    """Whether the event store of the settings is one of this machine's folders."""
    return is_here(settings().event_store_url)


def history_place() -> str:
    """What people call that store: a path of this machine."""
    return settings().event_store_url.removeprefix("file://")


def event_log() -> EventLogReader:
    """The events that the pipeline logged; raises as `store` does."""
    store()
    chosen = settings()
    return _event_log(event_log_folder(chosen), store_url(chosen), _identity(chosen.store.directory / DATABASE))


def message_links(alert: AlertRow) -> list[tuple[str, str]]:
    """(name, URL) of the pages of other programs that messages about an alert lead to (`alerting.links`, runbook)."""
    return [(name.replace("_", " "), url) for name, url in links_of(settings()).others(snapshot_of(alert)).items()]


def runbook_text(alert: AlertRow) -> str:
    """What to do, with the alert's own values filled in, as its messages have it."""
    return runbook_of(snapshot_of(alert))


def report(name: str) -> Report | None:
    """The latest report of this name (app.reports.tables); None when there is none yet. Raises ReportError."""
    root = reports_folder(settings())
    return _report(str(root), name, _state(root / name / LATEST))


def now_ms() -> int:
    """The time now, in milliseconds since the epoch."""
    return SystemClock().now_ms()


@st.cache_resource(show_spinner=False, max_entries=4)
def _settings(path: str, state: tuple[int, int, int]) -> Settings:
    """`state` of the file: one that was edited is read anew."""
    del state
    return load_settings(Path(path))


KEPT_BYTES = 1 << 27
"""An hour of one metric of 200 hosts takes some 4 MB, all that is told of a job of 20,000 tasks 16 MB in two parts."""


@st.cache_resource(show_spinner=False, max_entries=2, on_release=Store.close)
def _store(url: str, identity: tuple[int, int]) -> Store:
    """`identity` of an SQLite file: one that was replaced (another replay) is opened anew."""
    del identity
    return open_store(url, make=False)


@st.cache_resource(show_spinner=False, max_entries=2)
def _event_log(folder: Path, url: str, identity: tuple[int, int]) -> EventLogReader:
    """It remembers what the footers of files say, and what pages asked for last."""
    return EventLogReader(folder, lambda: _store(url, identity).event_log_positions(), keep_bytes=KEPT_BYTES)


@st.cache_resource(show_spinner=False, max_entries=2)
def _history(url: str) -> EventStoreReader:
    """It remembers the commits that it has read."""
    return EventStoreReader(url)


@st.cache_resource(show_spinner="Reading the report", max_entries=8)
def _report(root: str, name: str, state: tuple[int, int, int]) -> Report | None:
    """`state` of the file that names the latest run: it is replaced by each."""
    del state
    return read_report(Path(root), name)


def _state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0  # reading it says what is wrong
    return status.st_ino, status.st_size, status.st_mtime_ns


def _identity(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


__all__ = [
    "MAX_NOTE_CHARS",
    "AlertChangeRow",
    "AlertDetails",
    "AlertFilter",
    "AlertPage",
    "AlertRow",
    "AppError",
    "Cursor",
    "EventLogReader",
    "EventStoreReader",
    "EvidenceRow",
    "LateEventRow",
    "NotFoundError",
    "NotificationRow",
    "OverloadFigures",
    "ProblemRow",
    "ProcessStatus",
    "ProcessStatusRow",
    "QueryFigures",
    "ReceiverStatusRow",
    "Report",
    "ReportRow",
    "SentAgain",
    "Settings",
    "SheddingFigures",
    "SilenceChangeRow",
    "SilenceEdit",
    "SilenceRow",
    "SourceStatusRow",
    "StatisticRow",
    "Store",
    "StoreError",
    "Watch",
    "acknowledge",
    "assign",
    "case_of",
    "close",
    "edit_silence",
    "end_silence",
    "event_log",
    "hidden_by",
    "history",
    "history_place",
    "interval_section",
    "is_history_here",
    "live_store",
    "message_links",
    "now_ms",
    "read_matchers",
    "report",
    "runbook_text",
    "send_again",
    "settings",
    "silence",
    "silence_matching",
    "silence_text",
    "silencing",
    "stands",
    "store",
    "unacknowledge",
    "unknown_text",
    "watched",
]
