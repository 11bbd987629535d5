"""The events of the project's recording, as its collectors tell them poll by poll; a copy of an event counts once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from collectors.base import Collector, SourceUnavailableError
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from deploy.minicluster.recording import packing
from engine.events import EventBatch
from tests.collectors.test_recording import RecordedTransport
from tests.conftest import RECORDING

_POLL_MS = 15_000


def recorded_events(folder: Path) -> EventBatch:
    """In stream order; the recording is unpacked into `folder`, which is absent."""
    packing.unpack(RECORDING, folder)
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text(encoding="utf-8"))
    load = LoadDeriver()
    sources: list[Collector] = [
        JobHistoryCollector(JobHistoryOptions((folder / "history",))),
        ContainerLogCollector(ContainerLogOptions(folder / "userlogs")),
        DaemonLogCollector(DaemonLogOptions(folder / "daemons")),
        GangliaRrdCollector(GangliaRrdOptions(folder / "rrds")),
        YarnRestCollector(YarnRestOptions(lateness_ms=1_000), RecordedTransport(folder / "rest.jsonl.gz")),
    ]
    parts: list[EventBatch] = []
    for now_ms in range(manifest["started_ms"], manifest["ended_ms"] + 120_000, _POLL_MS):
        for source in sources:
            try:
                told = source.poll(now_ms)
            except SourceUnavailableError:
                continue  # before the recorder's first answer
            parts += [told.events, *(finished.events for finished in told.finished)]
            if isinstance(source, GangliaRrdCollector):
                parts.append(load.derive(told.events, told.watermark_ms))
    told_by_all = EventBatch.concat(parts)
    _, first = np.unique(np.array(told_by_all.strings("event_id").to_pylist()), return_index=True)
    return told_by_all.take(first.astype(np.int64)).sorted()
