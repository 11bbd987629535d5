"""The configuration with which clustercep watches this cluster: its daemons by their `/jmx` and logs, and its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploy.minicluster import watch_config
from deploy.minicluster.daemons import configuration
from deploy.minicluster.settings import Settings

MIN_WAIT_S = 75
MIN_SILENT_S = 14
SAFE_MODE_S = 15
UNDER_REPLICATED_S = 10
STARVED_S = 45
SETTLE_S = 10
"""What ended waits for the ends of its containers, and all else meanwhile for it."""
LOCALISATION_S = 22
"""A busy machine needs up to 14 s for the files of any job."""
MAX_CALL_MS = 800.0
"""A busy machine needs up to 700 ms for the calls of a job that is submitted."""
DISABLED = (
    "containers-failing-host",
    "hdfs-files-growing",
    "hdfs-standby-late",
    "masters-slow",
    "reducer-silent",
    "speculation-wasted",
)
"""As shipped: they have no usual threshold. The others of them get one here."""
MAX_FULL = 0.15
"""Of a DataNode; of all three a third of that."""
N_TRANSACTIONS = 1_500


def render(settings: Settings, ports: Mapping[str, int]) -> dict[str, Any]:
    """The content of clustercep's config.yaml; `ports` are those that were chosen at the cluster's start."""
    content = watch_config.render(settings, ports)
    shared = {name: content["sources"][name] for name in ("yarn_rest", "container_log", "daemon_log")}
    master = f"http://{settings.master_address}"
    hosts = settings.hosts
    return content | {
        "sources": shared
        | {
            # Nobody but the cluster knows its names: the daemons are asked, and DataNodes known, by address.
            "hosts": {host.address: host.name for host in (settings.master, *hosts)},
            "hdfs_audit": {
                "enabled": True,
                "interval": f"{watch_config.INTERVAL_S} s",
                "directory": str(configuration.audit_dir(settings)),
            },
            "yarn_timeline": {
                "enabled": True,
                "interval": f"{watch_config.INTERVAL_S} s",
                "server": f"{master}:{ports['timeline_http']}",
                "settle": f"{SETTLE_S} s",
            },
            "jmx": {
                "enabled": True,
                "interval": f"{watch_config.INTERVAL_S} s",
                "timeout": "3 s",  # a daemon that stands still is asked at every poll
                "daemon_timeout": "6 s",
                "poll_timeout": "10 s",
                "name_nodes": [f"{master}:{ports['namenode_http']}"],
                "resource_managers": [f"{master}:{ports['resourcemanager_http']}"],
                "history_servers": [f"{master}:{ports['jobhistory_http']}"],
                "data_nodes": [f"http://{host.address}:{ports['datanode_http']}" for host in hosts],
                "node_managers": [f"http://{host.address}:{ports['nodemanager_http']}" for host in hosts],
            },
        },
        "queries": {
            "directory": str(watch_config.QUERIES),
            "disabled": list(DISABLED),
            "parameters": {
                "job-waits": {"min_wait": f"{MIN_WAIT_S} s"},
                "containers-pending": {"min_wait": f"{MIN_WAIT_S} s"},
                "daemon-unreachable": {"min_silent": f"{MIN_SILENT_S} s"},
                "hdfs-safe-mode-stays": {"within": f"{SAFE_MODE_S} s"},
                "fetch-failures-host": {"min_failures": 3},
                "hdfs-under-replicated": {"min_blocks": 20, "min_period": f"{UNDER_REPLICATED_S} s"},
                "hdfs-capacity": {"max_used": MAX_FULL / 3},
                "datanode-capacity": {"max_used": MAX_FULL},
                "hdfs-user-busy": {"min_operations": 500},
                "hdfs-checkpoint-transactions": {"min_transactions": N_TRANSACTIONS},
                "hdfs-checkpoint-late": {"max_age": "1 min", "min_transactions": N_TRANSACTIONS},
                "namenode-lock-held": {"min_held": f"{configuration.LOCK_MS} ms"},
                "rpc-slow": {"max_processing_ms": MAX_CALL_MS},
                "queue-starved": {"min_period": f"{STARVED_S} s"},
                "localisation-slow": {"min_period": f"{LOCALISATION_S} s"},
            },
        },
    }
