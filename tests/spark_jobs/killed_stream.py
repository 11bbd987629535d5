"""A stream that kills its own process with -9 at a micro-batch: before its transaction, or between that and Spark's
own record that the micro-batch is done."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

from app.store.api import open_store
from spark_jobs.session import spark_session
from spark_jobs.stream_alerts import AlertSink, Written
from spark_jobs.stream_processor import CONF
from tests.spark_jobs.stream_fixtures import small_job

MASTER = "local[2]"
SMALL = {**CONF, "spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2"}


def main(folder: Path, name: str, batch_id: int, moment: str) -> None:
    def die(number: int) -> None:
        if number == batch_id:
            os.kill(os.getpid(), signal.SIGKILL)

    write = AlertSink.write

    def written(sink: AlertSink, rows: pa.Table, number: int) -> Written:
        if moment == "before":
            die(number)
        return write(sink, rows, number)

    AlertSink.write = written  # type: ignore[method-assign]
    after = (lambda done: die(done.batch_id)) if moment == "after" else (lambda _done: None)
    with spark_session("killed", MASTER, SMALL) as spark, open_store(f"sqlite:///{folder / name}.db") as store:
        spark.sparkContext.setLogLevel("OFF")
        small_job(folder, name, store, after=after).start(spark).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
