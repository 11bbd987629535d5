"""The Spark session of a job: on this machine, or on a cluster that a URL names."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.core import context as context_module
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.jvm_errors import quiet_gateway
from spark_jobs.master import SparkJobError, check_java, check_master, is_on_this_machine

LOCAL_MASTER = "local[*]"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",  # dates of the store are those of UTC
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Else the JVM is told of each column in which line it was made: a help for those who write queries by hand.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Many named files are listed by a job of so many tasks; else of one for each file, which costs more than to look.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOOPBACK = "127.0.0.1"
_ON_THIS_MACHINE = {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"


@contextmanager
def _no_handler_of_spark() -> Iterator[None]:
    """Within it Spark sets no handler of SIGINT: its own calls the JVM over a connection that is in use."""
    handler = signal.getsignal(signal.SIGINT)
    before = vars(context_module).get("signal", signal)
    vars(context_module)["signal"] = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        vars(context_module)["signal"] = before
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # a version of Spark that sets it elsewhere


@contextmanager
def spark_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for the time of a job; raises SparkJobError when it cannot be had.

    Without `master`: what spark-submit or Spark's own configuration says, else all cores of this machine. `conf`:
    settings that take the place of these here, by their Spark names.
    """
    wanted = master or (conf or {}).get("spark.master") or (None if _is_said_elsewhere(os.environ) else LOCAL_MASTER)
    if wanted is not None:
        check_master(wanted)
    if not _has_jvm():
        check_java()
    settings = {"spark.app.name": name, **_conf_of(wanted, conf or {})}
    if wanted is not None:
        settings["spark.master"] = wanted
    try:
        with _no_handler_of_spark():
            if not _has_jvm():
                _start_quietly(settings)
            spark = SparkSession.builder.config(map={**settings}).getOrCreate()
    except (PySparkException, Py4JJavaError, RuntimeError) as error:
        place = f"on {wanted}" if wanted else "on the master that it was given"
        java = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else None
        raise SparkJobError(f"Spark did not start {place}: {str(java or error).strip()}") from error
    _remember_classes(spark)
    try:
        yield spark
    except KeyboardInterrupt:
        # It may have broken into a call, whose answer is still to come over the connection of this thread.
        stopping = threading.Thread(target=spark.stop)
        stopping.start()
        stopping.join()
        raise
    except BaseException:
        spark.stop()
        raise
    else:
        spark.stop()


def _start_quietly(settings: Mapping[str, str]) -> None:
    """The context that the session will find, in a JVM whose warnings of itself nobody sees."""
    conf = SparkConf().setAll(list(settings.items()))
    SparkContext(conf=conf, gateway=quiet_gateway(conf))


def _remember_classes(spark: SparkSession) -> None:
    """PySpark asks the JVM for these with each column, and py4j looks for a bare name in every jar: a tenth of the time
    that a job of few rows takes."""
    jvm: Any = spark._jvm
    functions, utils = getattr(jvm, "org.apache.spark.sql.functions"), jvm.PythonUtils
    functions.col, functions.lit, utils.toSeq = functions.col, functions.lit, utils.toSeq
    setattr(jvm, "org.apache.spark.sql.functions", functions)
    jvm.functions, jvm.PythonUtils = functions, utils


def _conf_of(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session; those of this machine alone only where its executors are."""
    chosen = dict(_ALWAYS)
    if master is not None and is_on_this_machine(master):
        chosen |= _ON_THIS_MACHINE
        # Else the workers are whatever `python3` is on the path, without this program's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    elif "spark.pyspark.python" in conf:  # which Spark reads in spark-submit alone
        os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    chosen |= conf
    if not _has_jvm():
        quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
        chosen[_DRIVER_OPTIONS] = f"{quiet} {conf.get(_DRIVER_OPTIONS, '')}".strip()
    return chosen


def _has_jvm() -> bool:
    """Whether spark-submit started us, or a session was there before: the JVM is as it is."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def _is_said_elsewhere(given: Mapping[str, str]) -> bool:
    """Whether somebody has chosen a master before us: spark-submit, its arguments, or Spark's defaults."""
    if "PYSPARK_GATEWAY_PORT" in given:
        return True
    if any(word.startswith("--master") for word in shlex.split(given.get("PYSPARK_SUBMIT_ARGS", ""))):
        return True
    folder = given.get("SPARK_CONF_DIR") or str(Path(given["SPARK_HOME"], "conf") if "SPARK_HOME" in given else "")
    defaults = Path(folder, "spark-defaults.conf")
    return (
        bool(folder)
        and defaults.is_file()
        and any(line.split()[:1] == ["spark.master"] for line in defaults.read_text(encoding="utf-8").splitlines())
    )


__all__ = ["LOCAL_MASTER", "SparkJobError", "spark_session"]
