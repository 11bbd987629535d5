"""`spark-submit deploy/spark/job.py ingest|query|report|stream ARGUMENTS...`: a job under spark-submit."""

from __future__ import annotations

import importlib
import sys

from spark_jobs.interruption import run_job

JOBS = {"ingest": "ingest", "query": "query", "report": "reports", "stream": "stream"}
"""By the names of the commands: the packages of `spark_jobs`."""

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in JOBS:
        sys.exit(f"{__doc__}\nfound {sys.argv[1:2]}; expected one of {', '.join(JOBS)}")
    # By its name, so that executors import its functions instead of being sent them.
    run_job(importlib.import_module(f"spark_jobs.{JOBS[sys.argv.pop(1)]}.job").main)
