"""A stream that kills its own process with -9 between the transaction of a micro-batch and Spark's own record that the
micro-batch is done. What it told until then is left in files."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from app.store.api import open_store
from spark_jobs.session import spark_session
from spark_jobs.stream.alerts import Written
from spark_jobs.stream.processor import CONF
from spark_jobs.stream.rows import match_content
from tests.spark_jobs.conftest import LITTLE_COMPILING
from tests.spark_jobs.generated_stream import generated_job, told_rows

SMALL = {**CONF, **LITTLE_COMPILING, "spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2"}


def main(folder: Path, name: str, batch_id: int) -> None:
    def written(done: Written) -> None:
        rows = [json.dumps([row.query, match_content(row)]) + "\n" for row in done.batch.matches]
        told_rows(folder, done.batch_id).write_text("".join(rows), encoding="utf-8")
        if done.batch_id == batch_id:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        spark_session("killed", "local[1]", SMALL) as spark,
        open_store(f"sqlite:///{folder / name}.db") as store,
    ):
        spark.sparkContext.setLogLevel("OFF")
        generated_job(folder, name, store, after=written).start(spark).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
