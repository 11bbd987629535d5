"""The configuration with which clustercep watches this cluster: every source, at intervals that suit its few jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.minicluster.settings import Settings

NAME = "clustercep.yaml"
QUERIES = Path(__file__).resolve().parents[2] / "queries"
INTERVAL_S = 3
MAX_QUEUED_BYTES = 40_000_000
"""What the fault late_reducers exceeds, and no other job."""


def render(settings: Settings, ports: Mapping[str, int]) -> dict[str, Any]:
    """The content of clustercep's config.yaml; `ports` are those that were chosen at the cluster's start."""
    work = settings.work_dir
    step_s = settings.ganglia.step_s
    polled = {"enabled": True, "interval": f"{INTERVAL_S} s"}
    return {
        "sources": {
            "yarn_rest": polled
            | {
                "resource_managers": [f"http://{settings.master_address}:{ports['resourcemanager_http']}"],
                "history_server": f"http://{settings.master_address}:{ports['jobhistory_http']}",
            },
            "job_history": polled | {"directories": [str(settings.history_dir)]},
            "container_log": polled
            | {"directory": str(work / "nodes"), "layout": "{host}/userlogs/{application}/{container}/{role}"},
            # The DataNode's log is named without a host, and nothing here asks for its transfers.
            "daemon_log": polled | {"directory": str(work / "logs"), "client_trace": False},
            # A sample is final in its file when the next one has come.
            "ganglia_rrd": polled | {"directory": str(work / "rrds"), "lateness": f"{2 * step_s} s"},
        },
        "queries": {
            "directory": str(QUERIES),
            "parameters": {"queued-data-high": {"max_queued_bytes": MAX_QUEUED_BYTES}},
        },
        "store": {"directory": str(work / "clustercep")},
    }


def write(settings: Settings, ports: Mapping[str, int]) -> Path:
    """Write it into the working folder; where it is."""
    path = settings.work_dir / NAME
    content = "# How clustercep watches this cluster: clustercep run -c clustercep.yaml\n"
    path.write_text(content + yaml.safe_dump(render(settings, ports), sort_keys=False, width=120), encoding="utf-8")
    return path
