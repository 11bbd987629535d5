"""Which master a session gets, and what its settings are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_jobs import session
from spark_jobs.session import SparkJobError, spark_session


def test_a_master_that_cannot_be_reached_is_told_before_spark_starts() -> None:
    with pytest.raises(SparkJobError, match="cannot be reached"), spark_session("x", "spark://127.0.0.1:1"):
        pass


def test_a_master_that_was_chosen_before_stays(tmp_path: Path) -> None:
    said = session._is_said_elsewhere
    assert not said({})
    assert said({"PYSPARK_GATEWAY_PORT": "1"})
    assert said({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"})
    assert not said({"PYSPARK_SUBMIT_ARGS": "--conf x=y pyspark-shell"})
    assert not said({"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "spark-defaults.conf").write_text("# spark.master local\nspark.x 1\n")
    assert not said({"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "spark-defaults.conf").write_text("spark.x 1\nspark.master spark://h:7077\n")
    assert said({"SPARK_CONF_DIR": str(tmp_path)})


def test_only_executors_of_this_machine_listen_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_has_jvm", lambda: False)
    here = session._conf_of("local[2]", {"spark.driver.extraJavaOptions": "-Xss4m", "spark.ui.enabled": "true"})
    assert here["spark.driver.host"] == "127.0.0.1"
    assert here["spark.ui.enabled"] == "true"
    assert here["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Xss4m")
    for master in (None, "yarn"):
        assert "spark.driver.host" not in session._conf_of(master, {})


def test_a_column_asks_the_jvm_for_no_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = JVMView.__getattr__
    monkeypatch.setattr(JVMView, "__getattr__", lambda view, name: asked.append(name) or ask(view, name))
    rows = spark.range(2).select(sf.col("id"), sf.lit(1), sf.struct("id", "id")).collect()
    assert not {"functions", "org.apache.spark.sql.functions", "PythonUtils"} & set(asked)
    assert [tuple(row) for row in rows] == [(0, 1, (0, 0)), (1, 1, (1, 1))]


def test_times_are_those_of_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.LOG_SETTINGS.is_file()
