"""The jobs of the workload: what is submitted and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

STREAMING = "org.apache.hadoop.streaming.HadoopStreaming"
EXAMPLES = "org.apache.hadoop.examples.ExampleDriver"
HOSTILE_NAME = "<script>alert(1)</script> \"quoted\", commas; DROP TABLE alerts;-- '%s' \u00e9"
HOT_KEY = "key-of-everybody"
NARROW_QUEUE = "narrow"
"""Of clusters that have it: there is room for one container."""
LARGE_BYTES = 100 << 20
BAD_HOST = "node2"
MAX_FAILURES_PER_HOST = 2


@dataclass(frozen=True)
class Job:
    """One job.

    main_class, arguments: of the client; inputs: HDFS path -> content, written before.
    healthy: no alert may come of it. fault: name of the injected fault. expected: final status.
    """

    kind: str
    name: str
    main_class: str
    arguments: tuple[str, ...]
    inputs: tuple[tuple[str, bytes], ...] = ()
    healthy: bool = True
    fault: str = ""
    expected: str = "SUCCEEDED"


def map_lines(tasks: Sequence[dict[str, Any]]) -> bytes:
    """An input file with one line, and so one mapper, a task (see tasks/emit.py)."""
    return "".join(json.dumps(task) + "\n" for task in tasks).encode()


def streaming(
    work: Path,
    kind: str,
    tasks: Sequence[dict[str, Any]],
    n_reduces: int,
    reducer: str,
    *,
    name: str = "",
    options: Mapping[str, object] | None = None,
    healthy: bool = True,
    fault: str = "",
    expected: str = "SUCCEEDED",
) -> Job:
    """A Hadoop Streaming job with a mapper for each of `tasks`; `reducer`: arguments of tasks/consume.py."""
    settings: dict[str, object] = {
        "mapreduce.job.name": name or f"streaming {kind.replace('_', ' ')}",
        "mapreduce.job.reduces": n_reduces,
        "mapreduce.input.lineinputformat.linespermap": 1,
        "stream.map.input.ignoreKey": "true",
        "mapreduce.job.reduce.slowstart.completedmaps": 1.0,
        **(options or {}),
    }
    python = work / "bin" / "python3"
    arguments = [
        *(word for key, value in settings.items() for word in ("-D", f"{key}={value}")),
        "-files",
        f"file://{work}/tasks/emit.py,file://{work}/tasks/consume.py",
        "-input",
        f"/in/{kind}.jsonl",
        "-output",
        f"/out/{kind}",
        "-inputformat",
        "org.apache.hadoop.mapred.lib.NLineInputFormat",
        "-mapper",
        f"{python} emit.py",
        "-reducer",
        f"{python} consume.py {reducer}",
    ]
    inputs = ((f"/in/{kind}.jsonl", map_lines(tasks)),)
    return Job(kind, str(settings["mapreduce.job.name"]), STREAMING, tuple(arguments), inputs, healthy, fault, expected)


def example(kind: str, name: str, words: Sequence[object], inputs: tuple[tuple[str, bytes], ...] = ()) -> Job:
    """A job of Hadoop's own examples; `name` is what the example calls itself."""
    return Job(kind, name, EXAMPLES, tuple(str(word) for word in words), inputs)


def _pi(_: Path) -> Job:
    return example("pi", "QuasiMonteCarlo", ["pi", 4, 1000])


def _word_count(_: Path) -> Job:
    text = b"".join(b"line %d of a text about nodes, tasks and words\n" % (i % 97) for i in range(8000))
    inputs = tuple((f"/in/words/part-{i}", text) for i in range(3))
    words = ["wordcount", "-Dmapreduce.job.reduces=3", "/in/words", "/out/words"]
    return example("word_count", "word count", words, inputs)


def _teragen(_: Path) -> Job:
    return example("teragen", "TeraGen", ["teragen", "-Dmapreduce.job.maps=2", 20000, "/out/teragen"])


def _terasort(_: Path) -> Job:
    return example("terasort", "TeraSort", ["terasort", "-Dmapreduce.job.reduces=2", "/out/teragen", "/out/terasort"])


def _hostile_name(work: Path) -> Job:
    tasks = [{"sleep_s": 10, "n_records": 50, "seed": i} for i in range(4)]
    return streaming(work, "hostile_name", tasks, 1, "9 0", name=HOSTILE_NAME)


def _retried_map(work: Path) -> Job:
    tasks = [{"sleep_s": 11, "n_records": 50, "seed": i, "fail_first": i == 1} for i in range(4)]
    return streaming(work, "retried_map", tasks, 1, "9 0")


def _multi_reducer(work: Path) -> Job:
    tasks = [{"sleep_s": 10, "n_records": 200, "record_bytes": 200, "seed": i} for i in range(3)]
    return streaming(work, "multi_reducer", tasks, 3, "11 0")


def _killed(work: Path) -> Job:
    tasks = [{"sleep_s": 60, "n_records": 1, "seed": i} for i in range(2)]
    return streaming(work, "killed", tasks, 1, "1 0", expected="KILLED")


def _mapper_straggler(work: Path) -> Job:
    tasks: list[dict[str, Any]] = [{"sleep_s": 11, "n_records": 20, "seed": i} for i in range(10)]
    tasks[2] |= {"sleep_s": 120, "truth": f"{work}/jobs/mapper_straggler.truth"}
    options = {"mapreduce.job.running.map.limit": 5}
    return streaming(
        work, "mapper_straggler", tasks, 1, "9 0", options=options, healthy=False, fault="mapper_straggler"
    )


def _reducer_straggler(work: Path) -> Job:
    share = {"n_records": 400, "record_bytes": 100, "hot_key": HOT_KEY, "hot_share": 0.8, "n_cold_keys": 600}
    tasks = [{"sleep_s": 10, "seed": i, **share} for i in range(6)]
    options = {"mapreduce.job.running.map.limit": 3}
    reducer = f"0 0.07 {HOT_KEY} {work}/jobs/reducer_straggler.truth"
    return streaming(
        work, "reducer_straggler", tasks, 4, reducer, options=options, healthy=False, fault="reducer_straggler"
    )


def _slow_source_host(work: Path) -> Job:
    tasks = [{"sleep_s": 11, "n_records": 150, "record_bytes": 7000, "seed": i} for i in range(12)]
    # The reducers go on for a while after the slow fetch: an alert that comes meanwhile is of use to somebody.
    return streaming(work, "slow_source_host", tasks, 3, "30 0", healthy=False, fault="slow_source_host")


def _late_reducers(work: Path) -> Job:
    tasks = [{"sleep_s": 11, "n_records": 240, "record_bytes": 50_000, "seed": i} for i in range(12)]
    options = {"mapreduce.job.running.map.limit": 2}
    return streaming(work, "late_reducers", tasks, 3, "9 0", options=options, healthy=False, fault="late_reducers")


def _cpu_hungry_node(work: Path) -> Job:
    tasks = [{"sleep_s": 9, "n_records": 20, "seed": i} for i in range(3)]
    return streaming(work, "cpu_hungry_node", tasks, 2, "115 0", healthy=False, fault="cpu_hungry_node")


def _greedy_map(work: Path) -> Job:
    tasks: list[dict[str, Any]] = [{"sleep_s": 12, "n_records": 20, "seed": i} for i in range(3)]
    tasks[1] |= {"hog_first_mib": 600}
    return streaming(work, "greedy_map", tasks, 1, "5 0", healthy=False, fault="container_memory")


def _killed_master(work: Path) -> Job:
    tasks = [{"sleep_s": 14, "n_records": 20, "seed": i} for i in range(2)]
    return streaming(work, "killed_master", tasks, 1, "5 0", healthy=False, fault="master_killed")


def _starved_queue(work: Path) -> Job:
    tasks = [{"sleep_s": 5, "n_records": 1, "seed": i} for i in range(3)]
    options = {"mapreduce.job.queuename": NARROW_QUEUE}
    return streaming(
        work, "starved_queue", tasks, 1, "1 0",
        options=options, healthy=False, fault="queue_starved", expected="KILLED",
    )  # fmt: skip


def _waiting_master(_: Path) -> Job:
    # All in its ApplicationMaster: the queue has room for no more.
    words = ["pi", "-Dmapreduce.job.ubertask.enable=true", f"-Dmapreduce.job.queuename={NARROW_QUEUE}", 1, 100]
    return replace(example("waiting_master", "QuasiMonteCarlo", words), healthy=False, fault="master_waits")


def _lost_outputs(work: Path) -> Job:
    tasks = [{"sleep_s": 6, "n_records": 50, "record_bytes": 500, "seed": i} for i in range(6)]
    # A reducer tries so long before it says that it cannot connect; 3 minutes unless it is told.
    options = {"mapreduce.reduce.shuffle.connect.timeout": 2000}
    return streaming(
        work, "lost_outputs", tasks, 3, "8 0", options=options, healthy=False, fault="map_outputs_lost"
    )  # fmt: skip


def _large_file(_: Path) -> Job:
    path = "/in/large_file/large.bin"
    # All in its ApplicationMaster, so that the file comes to one node.
    words = ["pi", "-Dmapreduce.job.ubertask.enable=true", "-files", f"hdfs://{path}", 1, 100]
    job = example("large_file", "QuasiMonteCarlo", words, ((path, bytes(LARGE_BYTES)),))
    return replace(job, healthy=False, fault="slow_localisation")


def _bad_host(work: Path) -> Job:
    tasks = [{"sleep_s": 5, "n_records": 1, "seed": i, "fails_on": BAD_HOST} for i in range(9)]
    options = {
        "mapreduce.job.maxtaskfailures.per.tracker": MAX_FAILURES_PER_HOST,
        "yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent": -1,  # it is a third of the nodes
        "mapreduce.map.maxattempts": 8,
    }
    return streaming(work, "bad_host", tasks, 1, "1 0", options=options, healthy=False, fault="tasks_fail_on_host")


CATALOGUE: dict[str, Callable[[Path], Job]] = {
    "pi": _pi,
    "word_count": _word_count,
    "teragen": _teragen,
    "terasort": _terasort,
    "hostile_name": _hostile_name,
    "retried_map": _retried_map,
    "multi_reducer": _multi_reducer,
    "killed": _killed,
    "mapper_straggler": _mapper_straggler,
    "reducer_straggler": _reducer_straggler,
    "slow_source_host": _slow_source_host,
    "late_reducers": _late_reducers,
    "cpu_hungry_node": _cpu_hungry_node,
    "greedy_map": _greedy_map,
    "killed_master": _killed_master,
    "starved_queue": _starved_queue,
    "waiting_master": _waiting_master,
    "lost_outputs": _lost_outputs,
    "large_file": _large_file,
    "bad_host": _bad_host,
}
