"""Components with scripts of their own: each is made known to a server once, with an address for its script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

import dashboard.components
from dashboard.components import served
from dashboard.components.alert_list import _LIST
from dashboard.components.copied_texts import _TEXTS
from dashboard.components.query_editor import _FIELD
from dashboard.components.served import ServedComponent
from dashboard.components.sight import _PLACE

ALL = (_LIST, _TEXTS, _FIELD, _PLACE)


class Server:
    """What of a server's components is asked for and told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[tuple[str, str | None]], Path]] = []

    def get_component_asset_root(self, name: str) -> Path | None:
        found = [root for package, named, root in self.told for part, _ in named if f"{package}.{part}" == name]
        return found[0] if found else None

    def register_from_manifest(self, manifest: Any, root: Path) -> None:
        self.told.append((manifest.name, [(part.name, part.asset_dir) for part in manifest.components], root))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Components as Streamlit is told of them; each returns what it is given."""
    seen: list[tuple[str, dict[str, Any]]] = []

    def component(name: str, **how: Any) -> Any:
        seen.append((name, how))
        return lambda **given: given

    monkeypatch.setattr(st.components.v2, "component", component)
    served._registered.cache_clear()
    yield seen
    served._registered.cache_clear()


def test_a_server_is_told_once_and_the_style_is_read_once(
    made: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "field.css").write_text("b {}")
    field = ServedComponent(tmp_path, "field", "ours", "typed", "<b></b>")
    servers = [Server(), Server()]
    for server in (servers[0], servers[0], servers[1]):
        monkeypatch.setattr(served, "get_bidi_component_manager", lambda server=server: server)
        assert field(key="k", data={"x": 1}) == {"key": "k", "data": {"x": 1}}
    assert [server.told for server in servers] == [[("ours", [("typed", "script")], tmp_path)]] * 2
    assert made == [("ours.typed", {"html": "<b></b>", "css": "b {}", "js": "field.js", "isolate_styles": True})]


def test_each_component_has_its_files_and_a_name_of_its_own() -> None:
    assert len({component.full_name for component in ALL}) == len({component.package for component in ALL}) == len(ALL)
    for component in ALL:
        assert (component.folder / f"script/{component.stem}.js").is_file()
        assert (component.folder / f"{component.stem}.css").is_file()
    home = Path(dashboard.components.__file__).parent
    assert {component.folder for component in ALL} == {path.parent for path in home.glob("*/__init__.py")}
