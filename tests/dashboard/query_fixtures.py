"""A small installation of its own: settings, queries, a store and an event log, as the pages of queries read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.config import load_settings
from app.event_log import EventLog
from app.live.assembly import event_log_folder, open_configured_store
from app.settings import Settings
from app.store.api import Store
from app.store.models import CheckpointRow
from collectors.schema import load_event_types
from engine.events import EventBatch
from tests.new_store import placed

CLUSTER = load_event_types()
EPOCH = "0" * 16
RUN_S = 300.0
"""For a run of a page: by itself Streamlit gives one three seconds, of which a busy machine may need more."""
HOSTILE = "<script>alert(1)</script>\n\u202e:red[x] $x$ [a](http://evil) " + "x" * 10_000

SLOW = """-- A map attempt that took long.
PARAMETERS least = 1 s
PATTERN SEQ(MapStart a, MapEnd b)
WHERE   skip_till_next_match { [attempt_id] AND b.period_ms >= :least }
WITHIN  1 hour
RETURN  a.attempt_id, a.host, b.period_ms
ALERT   warning 'attempt {attempt_id} took {period_ms} ms'
"""
TIMES = """PATTERN SEQ(MapEnd a)
WHERE skip_till_next_match
WITHIN 1 hour
RETURN a.job_id, a.period_ms
REPORT 'one attempt'
"""
RUNBOOK = "# Runbook\n\n## slow\n\nLook at the host.\n\n## times\n\nOne row per attempt.\n\n## odd\n\nBroken.\n"


@dataclass(frozen=True)
class Installation:
    """Where it is; `settings` as the dashboard reads them."""

    folder: Path

    @property
    def settings(self) -> Settings:
        return load_settings(self.folder / "config.yaml")

    def store(self) -> Store:
        """The store."""
        return open_configured_store(self.settings, durable=False)

    def query(self, name: str, text: str) -> None:
        """One more query file."""
        (self.folder / "queries" / f"{name}.cep").write_text(text, encoding="utf-8")

    def configure(self, text: str) -> None:
        """The whole config.yaml, but for the folders."""
        body = f"queries:\n  directory: queries\n{text}\nstore: {{directory: data}}\n"
        (self.folder / "config.yaml").write_text(body, encoding="utf-8")

    def log(self, events: EventBatch, step: int = 1) -> None:
        """Events in the log, as if released by this step."""
        event_log = EventLog(event_log_folder(self.settings), durable=False)
        event_log.begin(EPOCH, step - 1)
        event_log.write(step, events.sorted(), 0)
        event_log.close()
        checkpoint = CheckpointRow(
            pipeline="live", number=step, file="none", digest="0", version=1, written_ms=0, epoch=EPOCH
        )
        with self.store() as store, store.transaction() as writer:
            writer.progress.put_checkpoint(checkpoint)


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Two queries, an alert and a report; an empty store; no event log yet."""
    st.cache_data.clear()  # what another test's store held
    made = Installation(tmp_path)
    (tmp_path / "queries").mkdir()
    made.configure("")
    made.query("slow", SLOW)
    made.query("times", TIMES)
    (tmp_path / "queries" / "RUNBOOK.md").write_text(RUNBOOK, encoding="utf-8")
    monkeypatch.setenv("CLUSTERCEP_CONFIG", str(tmp_path / "config.yaml"))
    # What runs a query gives way to all else: on a busy machine it may take minutes to start.
    monkeypatch.setenv("CLUSTERCEP__DASHBOARD__QUERY_TIMEOUT", "10 min")
    monkeypatch.delenv("CLUSTERCEP_STORE", raising=False)
    placed(tmp_path / "data" / "clustercep.db")
    return made


def attempts(n: int, start_ms: int = 0, **names: Any) -> EventBatch:
    """n map attempts of a second's distance; the i-th takes i * 100 ms."""
    rows: list[Mapping[str, Any]] = []
    for i in range(n):
        of_attempt = {
            "job_id": "job_1_1",
            "task_id": f"task_1_1_m_{i:06}",
            "attempt_id": f"attempt_1_1_m_{i:06}_0",
            "host": f"node{i}",
            **names,
        }
        at_ms = start_ms + i * 1_000
        rows += [
            {"event_id": f"s{i}", "type": "MapStart", "t_lo_ms": at_ms, **of_attempt},
            {"event_id": f"e{i}", "type": "MapEnd", "t_lo_ms": at_ms + i * 100, "period_ms": i * 100, **of_attempt},
        ]
    return EventBatch.from_rows(rows, CLUSTER)


def view(page: str, /, **params: str) -> AppTest:
    """A page, run once."""
    test = AppTest.from_string(f"from dashboard.main import show\nshow({page!r})", default_timeout=RUN_S)
    for key, value in params.items():
        test.query_params[key] = value
    return rerun(test)


def rerun(test: AppTest) -> AppTest:
    """Run again; nothing may have raised."""
    test.run(timeout=RUN_S)
    assert not test.exception, [found.message for found in test.exception]
    return test


def texts(test: AppTest) -> str:
    """All that the page says outside of tables."""
    groups: Sequence[Any] = (
        test.title,
        test.header,
        test.subheader,
        test.markdown,
        test.caption,
        test.error,
        test.warning,
        test.info,
        test.success,
    )
    return "\n".join([*(str(element.value) for group in groups for element in group), *copied(test)])


def opened(test: AppTest, key: str) -> AppTest:
    """The page once what is closed under this key has been opened."""
    test.session_state[key] = True
    return rerun(test)


def tables(test: AppTest) -> list[dict[str, list[str]]]:
    """The small tables of the page by their headings, in its order; cells as text, a link as its address."""
    bodies = [str(child.proto.body) for child in test.get("html")]
    return [read_table(body) for body in bodies if "<table>" in body]


def facts(test: AppTest) -> dict[str, str]:
    """Label and value of each row of facts."""
    found = [_Cells(str(child.proto.body)).cells for child in test.get("html")]
    return {
        label[1]: value[1]
        for cells in found
        for label, value in pairwise(cells)
        if (label[0], value[0]) == ("dt", "dd")
    }


def read_table(html: str) -> dict[str, list[str]]:
    """One table; whatever is in it beside our own elements has become markup, which is a fault."""
    found = _Cells(html)
    assert found.elements <= {"div", "table", "thead", "tbody", "tr", "th", "td", "a", "span"}, found.elements
    names = [text for kind, text in found.cells if kind == "th"]
    cells = [text for kind, text in found.cells if kind == "td"]
    return {name: cells[place :: len(names)] for place, name in enumerate(names)}


class _Cells(HTMLParser):
    """(element, text) of each heading, cell, label and value."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[tuple[str, str]] = []
        self.elements: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Texts of elements in a cell are the cell's; of a link its address is."""
        self.elements.add(tag)
        if tag in ("th", "td", "dt", "dd"):
            self.cells.append((tag, ""))
        elif tag == "a":
            self._add(f"{dict(attrs)['href']} ")

    def handle_data(self, data: str) -> None:
        """Of no cell: nothing."""
        self._add(data)

    def _add(self, text: str) -> None:
        if self.cells:
            tag, before = self.cells[-1]
            self.cells[-1] = (tag, before + text)


def copied(test: AppTest) -> list[str]:
    """The texts that have a button to copy them, in the order of the page."""
    return [text["text"] for given in given(test) for text in given.get("texts", ())]


def lists(test: AppTest) -> list[dict[str, Any]]:
    """What each list of alerts was given, in the order of the page."""
    return [given for given in given(test) if "rows" in given]


def given(test: AppTest) -> list[dict[str, Any]]:
    """What each component of our own was given, in the order of the page."""
    found = [child for child in _walk(test.main) if getattr(child, "type", "") == "bidi_component"]
    return [json.loads(child.proto.json or child.proto.mixed.json) for child in found]


def _walk(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield child
        if hasattr(child, "children"):
            yield from _walk(child)


def links_of(test: AppTest) -> dict[str, str]:
    """Addresses by what the link says."""
    return {found.proto.label: f"{found.proto.page}?{found.proto.query_string}" for found in test.get("page_link")} | {
        found.proto.label: found.proto.url for found in test.get("link_button")
    }


def in_address(test: AppTest, name: str) -> str:
    """A parameter of the page's address."""
    value = test.query_params[name]
    return value if isinstance(value, str) else value[0]
