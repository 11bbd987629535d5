"""RRD files as gmetad makes them, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import rrdtool

STEP_S = 15
T0_S = 1_700_000_010 // STEP_S * STEP_S
T0_MS = T0_S * 1000


def write_rrd(
    path: Path,
    values: Sequence[float | None],
    *,
    sources: Sequence[str] = ("sum",),
    start_s: int = T0_S,
    rows: int = 240,
) -> None:
    """One value per step: the row that ends at `start_s + (i + 1) * STEP_S` holds values[i]; None is unknown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rrdtool.create(
        str(path), "-b", str(start_s), "-s", str(STEP_S), *(f"DS:{name}:GAUGE:120:U:U" for name in sources),
        f"RRA:AVERAGE:0.5:1:{rows}", "RRA:AVERAGE:0.5:24:244",
    )  # fmt: skip
    extend_rrd(path, values, n_sources=len(sources), start_s=start_s)


def extend_rrd(path: Path, values: Sequence[float | None], *, start_s: int, n_sources: int = 1) -> None:
    """Append steps."""
    for i, value in enumerate(values, 1):
        text = "U" if value is None else repr(float(value))
        rrdtool.update(str(path), f"{start_s + i * STEP_S}" + f":{text}" * n_sources)


def rrdtool_or_skip() -> str:
    """The command's path. Without it the test is skipped, and fails with CI=true (see `tests.chromium`)."""
    path = shutil.which("rrdtool")
    if path is None:
        reason = "there is no rrdtool on the PATH; deploy/setup/for-tests.sh installs it"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    return path


def rrdtool_rows(path: Path, start_s: int, end_s: int) -> dict[int, float]:
    """Known rows that end in (start_s, end_s], read by the command line tool."""
    command = [rrdtool_or_skip(), "fetch", str(path), "AVERAGE", "-s", str(start_s), "-e", str(end_s)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {}
    for line in text.splitlines():
        stamp, _, value = line.partition(": ")
        if stamp.isdigit() and start_s < int(stamp) <= end_s and "nan" not in value.lower():
            rows[int(stamp)] = float(value.split()[0])
    return rows
