"""What a reader of reports sees while they are written, replaced, removed or damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.reports import folder
from app.reports.folder import LATEST, ReportError, latest_text, read_report, removable, run_name
from app.reports.tables import REPORTS, STRAGGLERS
from tests.dashboard.report_fixtures import REPORT_ROWS, T0_MS, straggler, write_report


def test_a_run_that_nothing_names_is_not_there(tmp_path: Path) -> None:
    written = write_report(tmp_path, STRAGGLERS, REPORT_ROWS[STRAGGLERS])
    (tmp_path / STRAGGLERS / LATEST).unlink()
    assert written.is_dir()
    assert read_report(tmp_path, STRAGGLERS) is None


def test_the_latest_run_is_read_whole(tmp_path: Path) -> None:
    write_report(tmp_path, STRAGGLERS, REPORT_ROWS[STRAGGLERS])
    found = read_report(tmp_path, STRAGGLERS)
    assert found is not None
    assert found.made_ms == T0_MS
    assert found.tables["attempts"].to_pylist() == REPORT_ROWS[STRAGGLERS]["attempts"]
    assert {name: table.schema for name, table in found.tables.items()} == REPORTS[STRAGGLERS]


def test_a_run_that_is_removed_while_it_is_read_makes_place_for_the_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_report(tmp_path, STRAGGLERS, REPORT_ROWS[STRAGGLERS])
    read_json = folder._read_json

    def removed_meanwhile(path: Path) -> object:
        found = read_json(path)
        if path.name == LATEST and old.exists():
            rows = REPORT_ROWS[STRAGGLERS] | {"attempts": [straggler(3)]}
            write_report(tmp_path, STRAGGLERS, rows, T0_MS + 1)
            shutil.rmtree(old)
        return found

    monkeypatch.setattr(folder, "_read_json", removed_meanwhile)
    found = read_report(tmp_path, STRAGGLERS)
    assert found is not None
    assert found.tables["attempts"].column("host").to_pylist() == ["node3"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda top, _: (top / LATEST).write_text("[]"), "expected a JSON object"),
        (lambda top, _: (top / LATEST).write_text('{"format": 2, "run": "x"}'), "found format 2; expected 1"),
        (lambda top, _: (top / LATEST).write_text('{"format": 1, "run": "../../x"}'), "found run '../../x'"),
        (lambda _, run: (run / "hosts.parquet").write_bytes(b"PAR1"), "hosts.parquet: cannot be read"),
        (lambda _, run: (run / "hosts.parquet").unlink(), "not there, though"),
        (lambda _, run: (run / "summary.json").write_text(json.dumps({})), "when it was made"),
    ],
)
def test_damage_is_told_with_place_and_remedy(tmp_path: Path, damage: object, told: str) -> None:
    run = write_report(tmp_path, STRAGGLERS, REPORT_ROWS[STRAGGLERS])
    damage(tmp_path / STRAGGLERS, run)  # type: ignore[operator]
    with pytest.raises(ReportError, match="make the report anew") as raised:
        read_report(tmp_path, STRAGGLERS)
    assert told in str(raised.value)


def test_only_runs_are_removed_and_the_newest_stay() -> None:
    runs = [run_name(T0_MS + n, "0123abcd") for n in range(5)]
    assert removable([*reversed(runs), "notes", LATEST], 3) == runs[:2]
    assert removable(runs[:2], 3) == []
    assert json.loads(latest_text(runs[0])) == {"format": 1, "run": runs[0]}
