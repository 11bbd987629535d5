"""The API over an empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store import Store
from tests.app.alertmanager.served import Served, served


@pytest.fixture
def api(store: Store, tmp_path: Path) -> Iterator[Served]:
    with served(store, tmp_path) as found:
        yield found
