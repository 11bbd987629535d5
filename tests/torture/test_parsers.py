"""The campaign's short form: some cases of one seed, in this process."""

from __future__ import annotations

from pathlib import Path

from tests.torture.campaigns.parsers import tried_cases
from tests.torture.readers.peers_and_settings import THROUGH_APPRISE


def test_bytes_that_nobody_would_write(tmp_path: Path) -> None:
    tried = tried_cases(7, tmp_path, n_cases=264)
    assert [failure for failure in tried.failures if "s for" not in failure] == []
    assert tried.n_cases.pop(THROUGH_APPRISE) == 1  # one in eight turns
    assert set(tried.n_cases.values()) == {8}  # each reader in its turn
