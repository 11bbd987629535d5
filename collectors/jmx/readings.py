"""What is read of which daemon: JMX attribute -> event attribute, as data.

Names are those of Hadoop 3.4's beans; further ones behind them are of other versions. What a daemon does not have is
null. Several places are tried in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

MIB = 1 << 20


class Kind(Enum):
    """How a value is taken."""

    COUNT = "count"
    """A whole number of now, 0 or more."""
    NUMBER = "number"
    """A number of now, 0 or more."""
    COUNTER = "counter"
    """A number that only grows: its growth since the poll before."""
    TEXT = "text"
    IS_THERE = "is there"
    """1 for a text that is not empty, else 0."""
    AGE = "age"
    """Milliseconds since a time."""
    N_FAILED = "n failed"
    """Entries of `failed` in an object that is written as a text."""
    N_LISTED = "n listed"
    """Entries of a list of objects that is written as a text."""
    LISTED = "listed"
    """What these are called, one after the other; null where the list is empty."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One attribute of an event."""

    attribute: str
    kind: Kind
    bean: str
    """What follows `name=` in the bean's name, up to the instance."""
    names: tuple[str, ...]
    """Of the JMX attribute; the first that the bean has counts."""
    factor: int = 1
    less: tuple[str, ...] = ()
    """Counts that this one contains and that are taken off; those that the bean does not have are 0."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One event type, and of which beans it is made."""

    event_type: str
    readings: tuple[Reading, ...]
    each: str | None = None
    """A bean of which there are several, each an event of its own; then all readings are of it."""
    instance: str = ""
    """The event attribute that tells them apart."""
    instance_tag: str | None = None
    """The JMX attribute that has it; None: what follows the bean's name."""
    not_instances: tuple[str, ...] = ()
    """Parts of names of beans that are left out."""


@dataclass(frozen=True, slots=True)
class DaemonKind:
    """What one kind of daemon is asked for at each poll."""

    name: str
    service: str
    """As beans name it."""
    queries: tuple[str, ...]
    """Patterns of beans (`?qry=`), without `Hadoop:service=...,`."""
    gets: tuple[str, ...]
    """Single attributes of large beans (`?get=`): NAME::ATTRIBUTE."""
    samples: tuple[Sample, ...]
    levels: tuple[str, ...] = ()
    """Patterns asked in their order until one finds nothing."""


def _count(attribute: str, bean: str, *names: str, factor: int = 1) -> Reading:
    return Reading(attribute, Kind.COUNT, bean, names, factor)


def _number(attribute: str, bean: str, *names: str) -> Reading:
    return Reading(attribute, Kind.NUMBER, bean, names)


def _counter(attribute: str, bean: str, *names: str) -> Reading:
    return Reading(attribute, Kind.COUNTER, bean, names)


_PROCESS = Sample(
    "DaemonSample",
    (
        _count("heap_used_bytes", "JvmMetrics", "MemHeapUsedM", factor=MIB),
        _count("heap_max_bytes", "JvmMetrics", "MemHeapMaxM", factor=MIB),
        _counter("gc_ms", "JvmMetrics", "GcTimeMillis"),
        _counter("n_long_pauses", "JvmMetrics", "GcNumWarnThresholdExceeded"),
        _counter("n_pauses", "JvmMetrics", "GcNumInfoThresholdExceeded"),
        _counter("paused_ms", "JvmMetrics", "GcTotalExtraSleepTime"),
        _counter("n_login_failures", "UgiMetrics", "LoginFailureNumOps"),
        _counter("n_renewal_failures", "UgiMetrics", "RenewalFailuresTotal", "RenewalFailures"),
    ),
)
_RPC = Sample(
    "RpcSample",
    (
        _number("queue_time_ms", "RpcActivityForPort", "RpcQueueTimeAvgTime"),
        _number("processing_time_ms", "RpcActivityForPort", "RpcProcessingTimeAvgTime"),
        _count("n_queued_calls", "RpcActivityForPort", "CallQueueLength"),
        _counter("n_calls", "RpcActivityForPort", "RpcProcessingTimeNumOps"),
        _counter("n_slow_calls", "RpcActivityForPort", "RpcSlowCalls"),
        _counter("n_backoffs", "RpcActivityForPort", "RpcClientBackoff"),
    ),
    each="RpcActivityForPort",
    instance="port",
)
_PROCESS_QUERIES = ("name=JvmMetrics", "name=UgiMetrics")

_FS, _STATE = "FSNamesystem", "FSNamesystemState"

NAME_NODE = DaemonKind(
    "NameNode",
    "NameNode",
    (f"name={_FS}", f"name={_STATE}", "name=NameNodeStatus", "name=RpcActivityForPort*", *_PROCESS_QUERIES),
    ("name=NameNodeInfo::Safemode", "name=NameNodeInfo::NameDirStatuses"),
    (
        Sample(
            "NameNodeSample",
            (
                Reading("ha_state", Kind.TEXT, "NameNodeStatus", ("State",)),
                Reading("ha_state", Kind.TEXT, _FS, ("tag.HAState",)),
                Reading("in_safe_mode", Kind.IS_THERE, "NameNodeInfo", ("Safemode",)),
                Reading("safe_mode", Kind.TEXT, "NameNodeInfo", ("Safemode",)),
                _count("n_missing_blocks", _FS, "MissingBlocks"),
                _count("n_missing_single_blocks", _FS, "MissingReplOneBlocks"),
                _count("n_corrupt_blocks", _FS, "CorruptBlocks"),
                _count("n_under_replicated", _STATE, "LowRedundancyBlocks", "UnderReplicatedBlocks"),
                _count("n_pending_blocks", _STATE, "PendingReconstructionBlocks", "PendingReplicationBlocks"),
                _count("n_timed_out_blocks", _FS, "NumTimedOutPendingReconstructions"),
                _count("n_live_datanodes", _STATE, "NumLiveDataNodes"),
                Reading(
                    "n_dead_datanodes",
                    Kind.COUNT,
                    _STATE,
                    ("NumDeadDataNodes",),
                    less=("NumDecomDeadDataNodes", "NumInMaintenanceDeadDataNodes"),  # nobody misses these
                ),
                _count("n_stale_datanodes", _STATE, "NumStaleDataNodes"),
                _count("n_failed_volumes", _STATE, "VolumeFailuresTotal"),
                Reading("n_failed_name_dirs", Kind.N_FAILED, "NameNodeInfo", ("NameDirStatuses",)),
                Reading("n_slow_peers", Kind.N_LISTED, "NameNodeStatus", ("SlowPeersReport",)),
                Reading("slow_peers", Kind.LISTED, "NameNodeStatus", ("SlowPeersReport",)),
                Reading("n_slow_disks", Kind.N_LISTED, "NameNodeStatus", ("SlowDisksReport",)),
                Reading("slow_disks", Kind.LISTED, "NameNodeStatus", ("SlowDisksReport",)),
                _count("used_bytes", _STATE, "CapacityUsed"),
                _count("remaining_bytes", _STATE, "CapacityRemaining"),
                _count("capacity_bytes", _STATE, "CapacityTotal"),
                _count("n_files", _STATE, "FilesTotal"),
                _count("n_blocks", _STATE, "BlocksTotal"),
                Reading("checkpoint_age_ms", Kind.AGE, _FS, ("LastCheckpointTime",)),
                _count("n_uncheckpointed", _FS, "TransactionsSinceLastCheckpoint"),
                _count("edits_lag_ms", _FS, "MillisSinceLastLoadedEdits"),
            ),
        ),
        _RPC,
        _PROCESS,
    ),
)

DATA_NODE = DaemonKind(
    "DataNode",
    "DataNode",
    ("name=FSDatasetState*", *_PROCESS_QUERIES),
    (),
    (
        Sample(
            "DataNodeSample",
            (
                _count("capacity_bytes", "FSDatasetState", "Capacity"),
                _count("used_bytes", "FSDatasetState", "DfsUsed"),
                _count("remaining_bytes", "FSDatasetState", "Remaining"),
                _count("n_failed_volumes", "FSDatasetState", "NumFailedVolumes"),
            ),
        ),
        _PROCESS,
    ),
)

MAX_QUEUE_DEPTH = 16

RESOURCE_MANAGER = DaemonKind(
    "ResourceManager",
    "ResourceManager",
    ("name=ClusterMetrics", "name=RMInfo", "name=RpcActivityForPort*", *_PROCESS_QUERIES),
    (),
    (
        Sample(
            "ResourceManagerSample",
            (
                Reading("ha_state", Kind.TEXT, "RMInfo", ("State",)),
                _count("n_active_nodes", "ClusterMetrics", "NumActiveNMs"),
                _count("n_lost_nodes", "ClusterMetrics", "NumLostNMs"),
                _count("n_unhealthy_nodes", "ClusterMetrics", "NumUnhealthyNMs"),
                _counter("n_masters", "ClusterMetrics", "AMRegisterDelayNumOps"),
                _number("am_launch_ms", "ClusterMetrics", "AMLaunchDelayAvgTime"),
                _number("am_register_ms", "ClusterMetrics", "AMRegisterDelayAvgTime"),
                _number("am_allocation_ms", "ClusterMetrics", "AMContainerAllocationDelayAvgTime"),
            ),
        ),
        Sample(
            "QueueSample",
            (
                _count("n_pending_apps", "QueueMetrics", "AppsPending"),
                _count("n_running_apps", "QueueMetrics", "AppsRunning"),
                _count("n_pending", "QueueMetrics", "PendingContainers"),
                _count("n_containers", "QueueMetrics", "AllocatedContainers"),
                _count("pending_bytes", "QueueMetrics", "PendingMB", factor=MIB),
                _count("allocated_bytes", "QueueMetrics", "AllocatedMB", factor=MIB),
                _count("available_bytes", "QueueMetrics", "AvailableMB", factor=MIB),
                _count("am_used_bytes", "QueueMetrics", "UsedAMResourceMB", factor=MIB),
                _count("am_limit_bytes", "QueueMetrics", "AMResourceLimitMB", factor=MIB),
                _counter("n_preempted", "QueueMetrics", "AggregateContainersPreempted"),
            ),
            each="QueueMetrics",
            instance="queue",
            instance_tag="tag.Queue",
            not_instances=(",user=", ",partition="),
        ),
        _RPC,
        _PROCESS,
    ),
    # A pattern that does not end in `,*` is of beans with these keys and no others: without those of each user and
    # partition in each queue, of which there may be thousands.
    tuple(
        "name=QueueMetrics," + ",".join(f"q{level}=*" for level in range(depth))
        for depth in range(1, MAX_QUEUE_DEPTH + 1)
    ),
)

NODE_MANAGER = DaemonKind(
    "NodeManager",
    "NodeManager",
    ("name=NodeManagerMetrics", "name=ShuffleMetrics", *_PROCESS_QUERIES),
    (),
    (
        Sample(
            "NodeManagerSample",
            (
                _count("n_bad_local_dirs", "NodeManagerMetrics", "BadLocalDirs"),
                _count("n_bad_log_dirs", "NodeManagerMetrics", "BadLogDirs"),
                _number("local_dirs_percent", "NodeManagerMetrics", "GoodLocalDirsDiskUtilizationPerc"),
                _counter("n_failed_containers", "NodeManagerMetrics", "ContainersFailed"),
                _counter("n_killed_containers", "NodeManagerMetrics", "ContainersKilled"),
                _number("localization_ms", "NodeManagerMetrics", "LocalizationDurationMillisAvgTime"),
                _counter("n_failed_shuffles", "ShuffleMetrics", "ShuffleOutputsFailed"),
            ),
        ),
        _PROCESS,
    ),
)

HISTORY_SERVER = DaemonKind("JobHistoryServer", "JobHistoryServer", _PROCESS_QUERIES, (), (_PROCESS,))

DAEMON_KINDS: Mapping[str, DaemonKind] = {
    kind.name: kind for kind in (NAME_NODE, DATA_NODE, RESOURCE_MANAGER, NODE_MANAGER, HISTORY_SERVER)
}
