"""What is not on this machine is told before Spark starts; what Hadoop may find is left to it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import AppError
from engine.errors import EngineError
from spark_jobs.local_paths import is_absent, may_be_elsewhere


@pytest.fixture(autouse=True)
def _no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in" / "2024-01").mkdir(parents=True)
    (tmp_path / "in" / "2024-01" / "a.jhist").write_bytes(b"x")
    (tmp_path / "in" / "odd[1]").write_bytes(b"x")
    (tmp_path / "in" / "nowhere").symlink_to(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "in/none", "/none", "in/none/../none", "in/2024-01/a.jhist/below", "in/no\u00ebl", "in/2025-*", "in/*/b.jhist",
        "none/*", "none/{a,b}", "file:{}/none", "file://{}/none", "file:{}/in/?", "in/a:b",
    ],
)  # fmt: skip
def test_what_is_absent(path: str, folder: Path) -> None:
    assert is_absent(path.replace("{}", str(folder)))


@pytest.mark.parametrize(
    "path",
    [
        "in", "in/", ".", "in/none/../2024-01", "in/2024-*", "in/*/?.jhist", "in/{2024,2025}-01", "in/[ab]",
        "in/odd[1]", "in/nowhere", "{}/in", "file:{}/in", "file://{}/in",
        # another file system, or no path that we can judge
        "", "hdfs://master/none", "s3a:none", "file:none", "file://host/none", "file:////none", "//none", "a:b",
        "in/n\\one", "in/nu\0ll", "in/" + "x" * 300,
    ],
)  # fmt: skip
def test_what_is_there_or_left_to_hadoop(path: str, folder: Path) -> None:
    assert not is_absent(path.replace("{}", str(folder)))


def test_paths_without_a_scheme_may_be_of_another_file_system(tmp_path: Path) -> None:
    assert not is_absent("/none", only_named=True)
    assert is_absent("file:/none", only_named=True)
    assert not may_be_elsewhere(None, {}, {})
    assert not may_be_elsewhere("local[2]", {"spark.x": "y"}, {"SPARK_HOME": str(tmp_path)})
    assert may_be_elsewhere("yarn", {}, {})
    assert may_be_elsewhere(None, {"spark.hadoop.fs.defaultFS": "hdfs://master"}, {})
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        assert may_be_elsewhere(None, {}, {name: "x"})
    (tmp_path / "spark-defaults.conf").write_text("spark.master local\n")
    assert not may_be_elsewhere(None, {}, {"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "spark-defaults.conf").write_text("spark.hadoop.fs.defaultFS hdfs://master\n")
    assert may_be_elsewhere(None, {}, {"SPARK_CONF_DIR": str(tmp_path)})


NO_STORE = "no event store there; expected a folder that `clustercep ingest` made"
QUERY = "PATTERN SEQ(JobStart a) WITHIN 1 hour RETURN a.user"


@pytest.mark.parametrize(
    ("package", "words", "told"),
    [
        ("ingest", ["{}/none"], "{}/none: not there; expected a file, a folder or a URL that Hadoop can open"),
        ("ingest", ["{}/in", "file:{}/n*"], "file:{}/n*: not there; expected a file"),
        ("ingest", ["--master=local[1]", "{}/none"], "{}/none: not there; expected a file"),
        ("reports", ["--store={}/none", "--", "stragglers"], f"file://{{}}/none: {NO_STORE}"),
        ("reports", ["--store=file://{}/in", "--", "stragglers"], f"file://{{}}/in: {NO_STORE}"),
        ("heuristics", ["--store={}/none", "--master=local[1]", "jobs"], f"file://{{}}/none: {NO_STORE}"),
        ("heuristics", ["--store={}/none", "--master=local[1]", "job_1_0001"], f"file://{{}}/none: {NO_STORE}"),
        ("query", ["--store={}/none", "--explain", "{}/q.cep"], f"file://{{}}/none: {NO_STORE}"),
        ("event_store", ["info", "--store={}/none"], f"file://{{}}/none: {NO_STORE}"),
        ("stream", ["--checkpoint={}/c", "{}/none"], "{}/none: no such folder; expected one in which event files"),
    ],
)
def test_no_session_is_asked_for(
    package: str,
    words: list[str],
    told: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(*_args: object, **_more: object) -> None:
        raise AssertionError("Spark was to be started")

    job = importlib.import_module(f"spark_jobs.{package}.job")
    monkeypatch.setattr(job, "spark_session", refused)
    (folder / "q.cep").write_text(QUERY)
    config = folder / "config.yaml"
    config.write_text("store: {directory: store}\n")
    words = [f"--config={config}", *(word.replace("{}", str(folder)) for word in words)]
    if package == "event_store":
        words = [words[1], words[0], *words[2:]]
    assert told.replace("{}", str(folder)) in complaint(job.main, words, capsys)


def complaint(main: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        assert main(words) == 2
    except (AppError, EngineError) as error:
        return str(error)
    return capsys.readouterr().err
