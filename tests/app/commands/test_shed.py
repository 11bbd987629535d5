"""`clustercep shed`: a model from what a store has seen, refused by `check` where it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.commands.check import check_all
from app.replay.demo import DemoResult
from app.store.api import open_store

ROOT = Path(__file__).parents[3]


def config(folder: Path, *, model: Path | None = None, more: str = "") -> Path:
    path = folder / "config.yaml"
    bound = "" if model is None else f"  latency_bound: 1 s\n  shedding_model: {model}\n"
    path.write_text(f"queries:\n  directory: {ROOT / 'queries'}\n{more}engine:\n  threads: 1\n{bound}")
    return path


@pytest.fixture(scope="module")
def model(demo: DemoResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shed")
    out = folder / "model.json"
    words = ["shed", "train", "--out", str(out), "--store", str(demo.store_directory), "--config", str(config(folder))]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert "Learned from 6," in result.stdout
    assert f"Model: {out}" in result.stdout
    return out


def test_a_store_or_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    words = ["shed", "train", "--config", str(config(tmp_path)), "--store", str(tmp_path / "nosuch")]
    result = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "model.json")])
    assert result.exit_code == 2
    assert "nosuch" in result.output
    assert "start 'clustercep run'" in " ".join(result.output.split())
    assert not (tmp_path / "nosuch").exists()
    result = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "away/model.json")])
    assert result.exit_code == 2
    assert "away: no such folder" in result.output


def test_training_tells_as_json_what_show_does(demo: DemoResult, tmp_path: Path) -> None:
    out, path = tmp_path / "model.json", str(config(tmp_path))
    words = ["shed", "train", "--out", str(out), "--store", str(demo.store_directory), "--config", path, "--json"]
    told = json.loads(CliRunner().invoke(cli, words).stdout)
    shown = json.loads(CliRunner().invoke(cli, ["shed", "show", str(out), "--json", "--config", path]).stdout)
    assert told == {"model": str(out), **shown}


def test_what_was_learned_is_shown(model: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["shed", "show", str(model), "--config", str(config(tmp_path))])
    assert result.exit_code == 0, result.output
    assert "Partial matches of mapper-straggler-running (branch 0)" in result.stdout
    assert "Events LoadStd: " in result.stdout
    assert "Events Metric" not in result.stdout, "no query reads them: dropping them gains nothing"
    assert "Events TaskSample" not in result.stdout, "another one would take its place"


def test_what_was_learned_is_shown_as_json(model: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["shed", "show", str(model), "--json", "--config", str(config(tmp_path))])
    told = json.loads(result.stdout)
    assert told["n_events"] > 6_000
    assert {one["query"] for one in told["partial_matches"]} >= {"mapper-straggler-running"}
    assert all(one["n_events"] > 0 for one in told["events"] if one["matches_each"] is not None)
    assert "LoadStd" in {one["type"] for one in told["events"]}


def test_a_model_that_fits_is_taken(model: Path, tmp_path: Path) -> None:
    report = check_all(config(tmp_path, model=model))
    assert report.problems == ()
    assert not any("shedding_model" in warning for warning in report.warnings)


def test_a_model_without_a_bound_is_of_no_use(model: Path, tmp_path: Path) -> None:
    path = config(tmp_path)
    path.write_text(path.read_text() + f"  shedding_model: {model}\n")
    assert any("without engine.latency_bound" in warning for warning in check_all(path).warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "it was cut; train it again"),
        (lambda text: text.replace('"n_events": 6', '"n_events": 7', 1), "it was changed; train it again"),
        (lambda _: "[]", "something else than a clustercep shedding model"),
        (lambda text: json.dumps({**json.loads(text), "version": 2}), "version 2, expected 1"),
    ],
)
def test_a_model_that_is_damaged_is_refused_with_its_place(
    model: Path, tmp_path: Path, change: object, message: str
) -> None:
    damaged = tmp_path / "damaged.json"
    assert callable(change)
    damaged.write_text(change(model.read_text()))
    (problem,) = check_all(config(tmp_path, model=damaged)).problems
    assert f"engine.shedding_model: {damaged}: " in problem
    assert message in problem


def test_a_model_of_other_queries_or_that_is_not_there_is_refused(model: Path, tmp_path: Path) -> None:
    other = config(tmp_path, model=model, more="  parameters: {gc-pause: {}}\n  disabled: [gc-pause]\n")
    (problem,) = check_all(other).problems
    assert "trained for other queries: gc-pause is gone" in problem
    (problem,) = check_all(config(tmp_path, model=tmp_path / "none.json")).problems
    assert "cannot be read: No such file" in problem


def test_there_must_be_something_to_learn_from(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    open_store(f"sqlite:///{tmp_path / 'store/clustercep.db'}").close()
    words = ["shed", "train", "--out", str(tmp_path / "m.json"), "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(cli, [*words, "--config", str(config(tmp_path))])
    assert result.exit_code == 2
    assert "there is nothing to learn from" in result.output
    assert not (tmp_path / "m.json").exists()
