"""The registry of sources, settings, builders, events.csv and config.yaml say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.live.sources import BUILDERS, source_ranks
from app.settings import Settings, Source, Sources
from collectors.schema import event_table
from collectors.sources import LIVE_SOURCES, SOURCE_OF_KIND, SPECS

CONFIG = Path(__file__).parents[3] / "config.yaml"


def test_names_are_registered_once() -> None:
    names = [spec.name for spec in SPECS]
    kinds = [kind for spec in SPECS for kind in spec.bulk_kinds]
    assert len(set(names)) == len(names)
    assert len(set(kinds)) == len(kinds) == len(SOURCE_OF_KIND)


def test_every_live_source_has_settings_and_a_builder() -> None:
    sections = {name for name, field in Sources.model_fields.items() if isinstance(field.annotation, type)
                and issubclass(field.annotation, Source)}  # fmt: skip
    assert set(LIVE_SOURCES) == sections == set(BUILDERS)
    assert list(source_ranks(Settings())) == list(LIVE_SOURCES)


def test_every_source_tells_something_and_nobody_else_does() -> None:
    assert all(spec.event_types for spec in SPECS)
    assert {name for row in event_table() for name in row.sources} == {spec.name for spec in SPECS}


def test_the_configuration_that_is_shipped_shows_all_of_them() -> None:
    shown = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["sources"]
    assert shown["precedence"] == list(LIVE_SOURCES)
    assert set(LIVE_SOURCES) <= set(shown)


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(ValueError, match=r"there is no source 'job_histroy'; .*did you mean 'job_history'"):
        Sources(precedence=("job_histroy",))
