"""A recording of a few seconds, written by hand in the layout of the real ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import yaml

T0_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""

JOB = "job_1700000000000_0001"


def write_recording(folder: Path, **manifest: Any) -> Path:
    """A cluster with one job, one log and some REST answers."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "started_ms": T0_MS,
        "ended_ms": T0_MS + 20_000,
        "poll_interval_ms": 5_000,
        "hosts": [{"name": "node1", "address": "127.0.10.1"}],
        "jobs": [{"job_id": JOB, "name": "<b>hostile</b>", "kind": "pi", "healthy": True}],
        "ground_truth": [],
        **manifest,
    }
    (folder / "manifest.yaml").write_text(yaml.safe_dump(content))
    log = folder / "userlogs/node1/application_1700000000000_0001/container_1700000000000_0001_01_000002/syslog"
    log.parent.mkdir(parents=True)
    log.write_text(
        "2023-11-14 22:13:21,000 INFO [main] a.B: first\n"
        "\tat a stack trace\n"
        "2023-11-14 22:13:20,500 INFO [main] a.B: written later with an earlier stamp\n"
        "2023-11-14 22:13:30,000 INFO [main] a.B: last\n"
    )
    history = folder / "history"
    history.mkdir()
    (history / f"{JOB}-1-user-name-2-1-1-SUCCEEDED-default-3.jhist").write_text(f'{{"finishTime":{T0_MS + 12_000}}}')
    (history / f"{JOB}_conf.xml").write_text("<configuration/>")
    (folder / "rrds").mkdir()
    write_rest(folder, rest_rows())
    return folder


def rest_rows() -> list[dict[str, Any]]:
    """Answers that change with time; one time there was none."""
    apps = "/ws/v1/cluster/apps?states=RUNNING&applicationTypes=MAPREDUCE"
    return [
        {
            "t_ms": T0_MS + 5_000,
            "source": "rm",
            "path": apps,
            "status": 200,
            "content_type": "application/json",
            "body": "{}",
        },
        {"t_ms": T0_MS + 10_000, "source": "rm", "path": apps, "status": 0, "error": "ConnectionRefusedError"},
        {
            "t_ms": T0_MS + 15_000,
            "source": "rm",
            "path": apps,
            "status": 503,
            "content_type": "text/plain",
            "body": "é",
        },
        {
            "t_ms": T0_MS,
            "source": "rm",
            "path": "/ws/v1/cluster/info",
            "status": 200,
            "body": {"clusterInfo": {"id": 1}},
        },
    ]


def write_rest(folder: Path, rows: list[dict[str, Any]]) -> None:
    """rest.jsonl.gz."""
    with gzip.open(folder / "rest.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
