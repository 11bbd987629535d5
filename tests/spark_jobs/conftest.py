"""One Spark session for all tests of the jobs: a JVM costs seconds and 600 MB (one worker runs them all)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import spark_session

LITTLE_COMPILING = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
}
"""Tests run much code a few times: half the processor time goes when the JVM optimises none of it.
By itself such a JVM keeps 48 MB of compiled code, all tests' queries have more than one job's."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark writes, compiles and loads a class for each expression of each query: for few rows a quarter of the time. Tests
of a whole path have them as shipped (`shipped_expressions`), and so have jobs that are processes of their own."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores of this machine, small and quiet."""
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "1g",
        **LITTLE_COMPILING,
        **INTERPRETED,
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with spark_session("tests", "local[2]", conf) as session:
        yield session


@pytest.fixture
def shipped_expressions(spark: SparkSession) -> Iterator[None]:
    """Within the test Spark compiles the expressions of queries, as it does by itself."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    assert [spark.conf.get(name) for name in INTERPRETED] == ["true", "FALLBACK"]
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
