"""python -m deploy.minicluster: starts, uses, records and ends the cluster."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from deploy.minicluster import settings, watch_config
from deploy.minicluster.cluster import Cluster
from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.processes.processes import is_alive
from deploy.minicluster.recording import packing, verification
from deploy.minicluster.recording.recording import Recording, versions
from deploy.minicluster.settings import PlannedJob, Settings
from deploy.minicluster.workload.workload import Outcome, Workload

PID_FILE = "minicluster.pid"


class Talk:
    """Prints lines with the seconds since the start."""

    def __init__(self) -> None:
        """Starts the clock."""
        self._started = time.monotonic()

    def __call__(self, message: str) -> None:
        """Print one line."""
        print(f"{time.monotonic() - self._started:7.1f} s  {message}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; 0 when all went well, 1 with problems, 2 when it could not be done, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        status: int = options.action(options)
    except MiniClusterError as error:
        print(f"minicluster: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("minicluster: interrupted; everything that was started has been ended", file=sys.stderr)
        return 130
    return status


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.minicluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    described = {
        "run": (_run, "start, run the workload, stop"),
        "record": (_record, "as run, and save everything that was seen as a recording"),
        "serve": (_serve, "start and repeat the workload until stopped"),
        "start": (_start, "serve in the background"),
        "stop": (_stop, "end what start has started"),
        "status": (_status, "say whether it runs, and where"),
    }
    for name, (action, text) in described.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("--config", type=Path, default=settings.DEFAULT_PATH, help="settings (YAML)")
        command.add_argument("--jobs", help="comma separated jobs to run one after the other, instead of the workload")
        if name == "record":
            command.add_argument("--out", type=Path, default=Path("build/recording"), help="folder of the recording")
        command.set_defaults(action=action)
    pack = commands.add_parser("pack", help="recording -> .tar.xz, the same bytes for the same files")
    pack.add_argument("folder", type=Path)
    pack.add_argument("archive", type=Path)
    pack.set_defaults(action=_pack)
    unpack = commands.add_parser("unpack", help=".tar.xz -> recording")
    unpack.add_argument("archive", type=Path)
    unpack.add_argument("folder", type=Path)
    unpack.set_defaults(action=_unpack)
    verify = commands.add_parser("verify", help="check that a recording shows its ground truth, and only that")
    verify.add_argument("folder", type=Path)
    verify.set_defaults(action=_verify)
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    loaded = settings.load(options.config)
    if options.jobs:
        phases = tuple((PlannedJob(name.strip()),) for name in options.jobs.split(","))
        loaded = dataclasses.replace(loaded, workload=phases)
    return loaded


def _run(options: argparse.Namespace) -> int:
    talk = Talk()
    talk("starting the cluster")
    with Cluster(_settings(options)) as cluster:
        outcome = _workload(cluster, talk)
    return _report(outcome, talk)


def _workload(cluster: Cluster, talk: Talk, *, repeat: bool = False) -> Outcome:
    port = cluster.ports["resourcemanager_http"]
    talk(f"healthy; ResourceManager at http://{cluster.settings.master_address}:{port}")
    talk(f"to watch it: .venv/bin/clustercep run -c {cluster.settings.work_dir / watch_config.NAME}")
    workload = Workload(cluster, talk)
    try:
        outcome = workload.run()
        while repeat:
            outcome = workload.run()
        return outcome
    finally:
        workload.stop()


def _record(options: argparse.Namespace) -> int:
    talk = Talk()
    talk("starting the cluster")
    with Cluster(_settings(options)) as cluster:
        recording = Recording(cluster, options.out)
        recording.start()
        try:
            outcome = _workload(cluster, talk)
            recording.save_history([job.job_id for job in outcome.jobs])
        finally:
            recording.stop_polling()
        found_versions = versions(cluster)
        used = dict(cluster.ports)
        cluster.stop()
        cluster.ports = used
        recording.finish(outcome, found_versions)
    talk(f"recorded in {options.out}")
    return _report(outcome, talk)


def _report(outcome: Outcome, talk: Talk) -> int:
    talk(f"stopped; {len(outcome.jobs)} jobs, {len(outcome.truths)} injected faults, {len(outcome.problems)} problems")
    for problem in outcome.problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


def _serve(options: argparse.Namespace) -> int:
    talk = Talk()
    loaded = _settings(options)
    with Cluster(loaded) as cluster:
        (loaded.work_dir / PID_FILE).write_text(str(os.getpid()), encoding="ascii")
        _workload(cluster, talk, repeat=True)
    return 0


def _start(options: argparse.Namespace) -> int:
    loaded = _settings(options)
    if (pid := _served_pid(loaded)) is not None:
        raise MiniClusterError(f"already running as process {pid}; stop it first")
    command = [sys.executable, "-m", "deploy.minicluster", "serve", "--config", str(options.config)]
    command += ["--jobs", options.jobs] if options.jobs else []
    log = Path("build/minicluster.log")
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    print(f"starting as process {process.pid}; it tells about itself in {log}")
    return 0


def _served_pid(loaded: Settings) -> int | None:
    try:
        pid = int((loaded.work_dir / PID_FILE).read_text(encoding="ascii"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"deploy.minicluster" in command else None


def _stop(options: argparse.Namespace) -> int:
    pid = _served_pid(_settings(options))
    if pid is None:
        print("not running")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while is_alive(pid):
        if time.monotonic() > deadline:
            raise MiniClusterError(f"process {pid} did not end within 60 s")
        time.sleep(0.2)
    print("stopped")
    return 0


def _status(options: argparse.Namespace) -> int:
    pid = _served_pid(_settings(options))
    print("not running" if pid is None else f"running as process {pid}")
    return 0 if pid is not None else 1


def _pack(options: argparse.Namespace) -> int:
    packing.pack(options.folder, options.archive)
    print(f"{options.archive}: {options.archive.stat().st_size} bytes")
    return 0


def _unpack(options: argparse.Namespace) -> int:
    packing.unpack(options.archive, options.folder)
    return 0


def _verify(options: argparse.Namespace) -> int:
    findings = verification.verify(options.folder, verification.this_machine())
    for finding in findings:
        print(f"{'ok  ' if finding.holds else 'FAIL'} {finding.text}")
    return 0 if all(finding.holds for finding in findings) else 1
