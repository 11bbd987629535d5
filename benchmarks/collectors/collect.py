"""How fast files become events: job history, and Ganglia RRDs that grow by a step between polls."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import rrdtool

from benchmarks.measure import median_seconds, show
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.time_units import DAY_MS

T0_MS = 1_700_000_010_000
STEP_S = 15
CLASS = "org.apache.hadoop.mapreduce.jobhistory."
COUNTERS = {
    "org.apache.hadoop.mapreduce.FileSystemCounter": [
        f"{scheme}_{what}"
        for scheme in ("FILE", "HDFS")
        for what in ("BYTES_READ", "BYTES_WRITTEN", "READ_OPS", "LARGE_READ_OPS", "WRITE_OPS")
    ],
    "org.apache.hadoop.mapreduce.TaskCounter": [
        "MAP_INPUT_RECORDS",
        "MAP_OUTPUT_RECORDS",
        "MAP_OUTPUT_BYTES",
        "MAP_OUTPUT_MATERIALIZED_BYTES",
        "INPUT_SPLIT_BYTES",
        "COMBINE_INPUT_RECORDS",
        "COMBINE_OUTPUT_RECORDS",
        "REDUCE_INPUT_GROUPS",
        "REDUCE_SHUFFLE_BYTES",
        "REDUCE_INPUT_RECORDS",
        "REDUCE_OUTPUT_RECORDS",
        "SPILLED_RECORDS",
        "SHUFFLED_MAPS",
        "FAILED_SHUFFLE",
        "MERGED_MAP_OUTPUTS",
        "GC_TIME_MILLIS",
        "CPU_MILLISECONDS",
        "PHYSICAL_MEMORY_BYTES",
        "VIRTUAL_MEMORY_BYTES",
        "COMMITTED_HEAP_BYTES",
        "MAP_PHYSICAL_MEMORY_BYTES_MAX",
        "MAP_VIRTUAL_MEMORY_BYTES_MAX",
    ],
    "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter": ["BYTES_READ"],
    "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter": ["BYTES_WRITTEN"],
}


def main(
    n_jobs: int = 40, n_maps: int = 200, n_reduces: int = 20, n_hosts: int = 200, n_metrics: int = 10
) -> dict[str, Any]:
    """Print two tables and return their figures."""
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        history = measure_history(Path(folder) / "history", n_jobs, n_maps, n_reduces)
        rrds = measure_rrds(Path(folder) / "rrds", n_hosts, n_metrics)
    show(
        "job history: .jhist files to event batches",
        ("files", "MB", "events", "seconds", "events/s", "MB/s"),
        [[history[name] for name in ("n_files", "mb", "n_events", "seconds", "events_per_s", "mb_per_s")]],
    )
    show(
        f"RRDs: {n_hosts} hosts x {n_metrics} metrics",
        ("poll", "samples", "seconds", "hosts x metrics per second"),
        [[name, *rrds[name].values()] for name in rrds],
    )
    return {"job_history": history, "rrd": rrds}


def measure_history(folder: Path, n_jobs: int, n_maps: int, n_reduces: int) -> dict[str, float]:
    """Read `n_jobs` finished histories."""
    write_histories(folder, n_jobs, n_maps, n_reduces)
    n_bytes = sum(path.stat().st_size for path in folder.iterdir())
    n_events = 0

    def read() -> None:
        nonlocal n_events
        polled = JobHistoryCollector(JobHistoryOptions((folder,))).poll(T0_MS + DAY_MS)
        n_events = sum(len(finished.events) for finished in polled.finished)

    seconds = median_seconds(read)
    return {
        "n_files": n_jobs,
        "mb": round(n_bytes / 1e6, 1),
        "n_events": n_events,
        "seconds": round(seconds, 3),
        "events_per_s": round(n_events / seconds),
        "mb_per_s": round(n_bytes / 1e6 / seconds, 1),
    }


def measure_rrds(folder: Path, n_hosts: int, n_metrics: int) -> dict[str, dict[str, float]]:
    """First read of a full hour; polls after each file has grown by a step; polls that find nothing new."""
    files = write_rrds(folder, n_hosts, n_metrics, n_steps=240)
    options = GangliaRrdOptions(folder, metric_pattern=".*", lateness_ms=0)
    collector = GangliaRrdCollector(options)
    now_s = T0_MS // 1000 + 240 * STEP_S
    figures = {"first hour": timed_poll(collector, now_s, len(files))}
    grown = []
    for _ in range(5):
        now_s += STEP_S
        for path in files:
            rrdtool.update(str(path), f"{now_s}:{now_s % 97}")
        grown.append(timed_poll(collector, now_s, len(files)))
    figures["each has grown by a step"] = sorted(grown, key=lambda figure: figure["seconds"])[len(grown) // 2]
    figures["nothing new"] = timed_poll(collector, now_s, len(files))
    return figures


def timed_poll(collector: GangliaRrdCollector, now_s: int, n_files: int) -> dict[str, float]:
    """One poll."""
    started = time.perf_counter()
    polled = collector.poll(now_s * 1000)
    seconds = time.perf_counter() - started
    return {
        "n_samples": len(polled.events),
        "seconds": round(seconds, 4),
        "hosts_x_metrics_per_s": round(n_files / seconds),
    }


def write_rrds(folder: Path, n_hosts: int, n_metrics: int, n_steps: int) -> list[Path]:
    """Files as gmetad makes them, all with the same `n_steps` values."""
    folder.mkdir()
    model = folder / "model"
    start_s = T0_MS // 1000
    rrdtool.create(
        str(model), "-b", str(start_s), "-s", str(STEP_S), "DS:sum:GAUGE:120:U:U",
        "RRA:AVERAGE:0.5:1:5856", "RRA:AVERAGE:0.5:4:20160", "RRA:AVERAGE:0.5:40:52704",
    )  # fmt: skip
    rrdtool.update(str(model), *(f"{start_s + i * STEP_S}:{i % 101}" for i in range(1, n_steps + 1)))
    files = []
    for host in range(n_hosts):
        (folder / "cluster" / f"node{host}").mkdir(parents=True)
        for metric in range(n_metrics):
            files.append(folder / "cluster" / f"node{host}" / f"metric_{metric}.rrd")
            shutil.copyfile(model, files[-1])
    model.unlink()
    return files


def write_histories(folder: Path, n_jobs: int, n_maps: int, n_reduces: int) -> None:
    """Histories of `n_jobs` successful jobs of one size."""
    folder.mkdir()
    for number in range(n_jobs):
        path = folder / f"job_1700000000000_{number:04}-1-ann-bench-2-{n_maps}-{n_reduces}-SUCCEEDED-etl.jhist"
        path.write_text(history_text(f"1700000000000_{number:04}", n_maps, n_reduces))


def history_text(number: str, n_maps: int, n_reduces: int) -> str:
    """A successful job with all the records and counters that Hadoop writes for it."""
    job_id = f"job_{number}"
    lines = [
        "Avro-Json",
        json.dumps({"type": "record", "name": "Event"}),
        record("AM_STARTED", "AMStarted", startTime=T0_MS, nodeManagerHost="node1"),
        record("JOB_SUBMITTED", "JobSubmitted", jobid=job_id, jobName="bench", userName="ann", jobQueueName="etl"),
        record("JOB_INITED", "JobInited", jobid=job_id, launchTime=T0_MS, totalMaps=n_maps, totalReduces=n_reduces),
    ]
    for kind, letter, n_tasks in (("MAP", "m", n_maps), ("REDUCE", "r", n_reduces)):
        for task in range(n_tasks):
            task_id = f"task_{number}_{letter}_{task:06}"
            started_ms = T0_MS + 1_000 * (task + (n_maps if kind == "REDUCE" else 0))
            lines += attempt_records(kind, task_id, started_ms)
    lines.append(record("JOB_FINISHED", "JobFinished", jobid=job_id, finishTime=T0_MS + 1_000_000))
    return "\n\n".join(lines) + "\n"


def attempt_records(kind: str, task_id: str, started_ms: int) -> list[str]:
    """One task with one successful attempt."""
    attempt_id = f"attempt{task_id[4:]}_0"
    counters = {
        "name": "COUNTERS",
        "groups": [
            {
                "name": group,
                "displayName": group,
                "counts": [{"name": n, "displayName": n.title().replace("_", " "), "value": 12345} for n in names],
            }
            for group, names in COUNTERS.items()
        ],
    }
    ids = {"taskid": task_id, "taskType": kind}
    finish_ms = started_ms + 60_000
    phases: dict[str, Any] = {"mapFinishTime": finish_ms}
    if kind == "REDUCE":
        phases = {"shuffleFinishTime": started_ms + 30_000, "sortFinishTime": started_ms + 31_000}
    end = {"finishTime": finish_ms, "hostname": "node7", "rackname": "/r1", "counters": counters}
    name = kind.title()
    return [
        record("TASK_STARTED", "TaskStarted", **ids, startTime=started_ms, splitLocations="node1,node2,node3"),
        record(
            f"{kind}_ATTEMPT_STARTED", "TaskAttemptStarted", **ids, attemptId=attempt_id, startTime=started_ms,
            trackerName="node7", httpPort=8042, shufflePort=13562, containerId=f"container{task_id[4:]}",
        ),
        record(
            f"{kind}_ATTEMPT_FINISHED", f"{name}AttemptFinished", **ids, attemptId=attempt_id, taskStatus="SUCCEEDED",
            **phases, **end, clockSplits=[5_000] * 12, cpuUsages=[400] * 12, vMemKbytes=[0] * 12,
        ),
        record("TASK_FINISHED", "TaskFinished", **ids, status="SUCCEEDED", **end),
    ]  # fmt: skip


def record(kind: str, name: str, **fields: Any) -> str:
    """One line of a history."""
    return json.dumps({"type": kind, "event": {CLASS + name: fields}}, separators=(",", ":"))
