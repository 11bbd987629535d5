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
    archives: Sequence[str] | None = None,
) -> None:
    """One value per step: the row that ends at `start_s + (i + 1) * STEP_S` holds values[i]; None is unknown.

    archives: in rrdtool's words; by default two of averages, the finest with so many `rows`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rrdtool.create(
        str(path), "-b", str(start_s), "-s", str(STEP_S), *(f"DS:{name}:GAUGE:120:U:U" for name in sources),
        *(archives or (f"RRA:AVERAGE:0.5:1:{rows}", "RRA:AVERAGE:0.5:24:244")),
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


def rrdtool_rows(path: Path, start_s: int, end_s: int, step_s: int = 1) -> dict[int, float]:
    """Known rows that end in (start_s, end_s], read by the command line tool, of the archive next to a step."""
    command = [rrdtool_or_skip(), "fetch", str(path), "AVERAGE", "-s", str(start_s), "-e", str(end_s)]
    command += ["-r", str(step_s)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {}
    for line in text.splitlines():
        stamp, _, value = line.partition(": ")
        if stamp.isdigit() and start_s < int(stamp) <= end_s and "nan" not in value.lower():
            rows[int(stamp)] = float(value.split()[0])
    return rows


Sample = tuple[int, int]
"""When its row ends and how long it is, in seconds."""


def archived(path: Path, steps_of_rows: Sequence[tuple[int, int]], updated_s: int) -> dict[Sample, float]:
    """All known rows of the archives (steps in a row, rows) of a file, read by the command line tool."""
    found = {}
    for n_steps, n_rows in steps_of_rows:
        step_s = n_steps * STEP_S
        end_s = updated_s // step_s * step_s
        rows = rrdtool_rows(path, end_s - n_rows * step_s, end_s, step_s)
        found.update({(t_s, step_s): value for t_s, value in rows.items()})
    return found


def each_time_once(rows: dict[Sample, float]) -> dict[Sample, float]:
    """The rows that no finer one touches, by definition."""

    def touches(one: Sample, other: Sample) -> bool:
        return one[0] - one[1] < other[0] and other[0] - other[1] < one[0]

    return {
        row: value
        for row, value in rows.items()
        if not any(other[1] < row[1] and touches(row, other) for other in rows)
    }
