"""Ten hours of a cluster as busy as the largest recording: nothing grows.

The shipped recording, looped (`looped_recording`), through sources, pipeline, store, event log and delivery on a
simulated clock. Windows, remembered ids and all retentions are cut to an hour, so that what is kept by design is full
after two; from then on memory, open files, the checkpoint's size and the processor time of steps are fitted with a
line. The bound holds when the upper end of the slope's 95 % confidence interval is below it. Each loop has to raise the
same alerts.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.alerting.notifier import Notifier
from app.clock import SetClock, SystemClock
from app.config import load_settings
from app.live.assembly import checked_queries, endpoints_of, open_configured_store
from app.process.runner import Runner
from app.replay.recorded_rest import serve
from app.replay.recording import Recording
from app.replay.replay import settings_for
from app.replay.webhook_sink import webhook_sink
from app.settings import Retention, Settings, WebhookReceiver
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.looped_recording import LOOP_S, LoopedRecording

ROOT = Path(__file__).parents[3]
HOURS, WARM_HOURS = 10.0, 2.0
POLL_MS = 15_000
"""As sources are polled unless it is set."""
HOUR_MS = 3_600_000

BOUNDS = {"memory": 0.01, "open files": 0.01, "checkpoint": 0.02, "step time": 0.03}
"""Growth per hour of event time, as a share of the mean."""


@dataclass(frozen=True)
class Sample:
    """At the end of a loop."""

    hours: float
    memory: float
    """MiB that are resident."""
    n_open: float
    checkpoint: float
    """KiB of its files."""
    step_s: float
    """Processor time of a poll of all sources with its step, mean over the loop."""
    n_alerts: int
    """That the loop raised."""


@dataclass(frozen=True)
class Slope:
    """Of a line: growth per hour as a share of the mean, with its 95 % confidence interval."""

    mean: float
    share: float
    low: float
    high: float

    def text(self, unit: str) -> str:
        """For the line of figures."""
        return f"{self.mean:.4g} {unit} {self.share:+.2%} an hour [{self.low:+.2%}, {self.high:+.2%}]"


def slope(hours: Sequence[float], values: Sequence[float]) -> Slope:
    """Least squares; three values at least."""
    x, y = np.asarray(hours), np.asarray(values)
    centred = x - x.mean()
    b = float((centred * y).sum() / (centred**2).sum())
    rest = y - y.mean() - b * centred
    n_free = len(x) - 2
    error = float(np.sqrt((rest**2).sum() / n_free / (centred**2).sum()))
    t = 1.96 + 2.37 / n_free  # of Student's distribution, its first terms
    mean = float(y.mean())
    return Slope(mean, b / mean, (b - t * error) / mean, (b + t * error) / mean)


def short_windows(queries: Path, target: Path) -> None:
    """The shipped queries, of which none looks back for more than an hour."""
    target.mkdir(parents=True)
    for path in queries.iterdir():
        if path.suffix in (".cep", ".md"):
            text = re.sub(r"WITHIN(\s+)(\d+ days?|\d+ hours?)", r"WITHIN\g<1>1 hour", path.read_text(encoding="utf-8"))
            (target / path.name).write_text(text, encoding="utf-8")


def soaked(folder: Path, hours: float, most_s: float) -> list[Sample]:
    """Loop after loop, for so many hours of event time or as long as the wall clock allows."""
    plain = load_settings(ROOT / "config.yaml", {})
    recording = Recording.open(plain.demo.recording, folder / "recording", plain.replay)
    looped = LoopedRecording(recording, folder)
    clock = SetClock(recording.manifest.started_ms)
    started_s, samples = time.monotonic(), list[Sample]()
    with ExitStack() as opened:
        base_url = opened.enter_context(serve(looped, clock))  # type: ignore[arg-type]  # answers as RecordedRest
        sink = opened.enter_context(webhook_sink())
        short_windows(ROOT / "queries", folder / "queries")
        settings = _settings(settings_for(recording, plain, looped.spool_folder, base_url), folder, sink.url)
        store = opened.enter_context(open_configured_store(settings, durable=False))
        notifier = Notifier(store, endpoints_of(settings), SystemClock())
        opened.callback(notifier.stop)
        runner = Runner(settings, checked_queries(settings), store, notifier, clock, durable=False)
        opened.callback(runner.stop, 60)
        notifier.start()
        number = n_alerts = 0
        while number * LOOP_S < 3_600 * hours and (not samples or time.monotonic() - started_s < most_s):
            spool = looped.begin(number)
            begin_ms = recording.manifest.started_ms + 1000 * LOOP_S * number
            n_polls, busy_s = 0, 0.0
            for now_ms in range(begin_ms + POLL_MS, begin_ms + 1000 * LOOP_S + 1, POLL_MS):
                clock.advance_to(now_ms)
                spool.advance(now_ms)
                before_s = time.process_time()
                for name in runner.live.sources:
                    runner.poll(name)
                runner.step()
                busy_s += time.process_time() - before_s
                n_polls += 1
            if runner.outage is not None:
                raise RuntimeError(runner.outage.reason)
            runner.clean()
            notifier.drain(60)
            sink.received.clear()
            raised = sum(value for key, value in _raised(runner).items())
            samples.append(_sample(settings, number + 1, busy_s / n_polls, raised - n_alerts))
            n_alerts = raised
            number += 1
    return samples


def _raised(runner: Runner) -> dict[str, int]:
    """Alerts by query, without incidents: their windows of ten minutes reach from one loop into the next."""
    incidents = {name for name, info in runner.queries.infos.items() if info.is_incident}
    found: dict[str, int] = {}
    for metric in runner.metrics.registry.collect():
        for sample in metric.samples:
            if sample.name == "clustercep_alert_changes_total" and sample.labels.get("state") == "firing":
                query = sample.labels["query"]
                if query not in incidents:
                    found[query] = found.get(query, 0) + int(sample.value)
    return found


def _sample(settings: Settings, number: int, step_s: float, n_alerts: int) -> Sample:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = [path.stat().st_size for path in (settings.store.directory / "checkpoints").rglob("*") if path.is_file()]
    return Sample(
        hours=number * LOOP_S / 3_600,
        memory=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        n_open=len(list(Path("/proc/self/fd").iterdir())),
        checkpoint=sum(files) / 2**10,
        step_s=step_s,
        n_alerts=n_alerts,
    )


def _settings(settings: Settings, folder: Path, webhook_url: str) -> Settings:
    hour = dict.fromkeys((name for name in Retention.model_fields if name.endswith("_ms")), HOUR_MS)
    sources = {
        name: part.model_copy(update={"interval_ms": POLL_MS})
        for name, part in settings.sources
        if hasattr(part, "interval_ms")
    }
    receivers = {"ops": WebhookReceiver.model_validate({"url": webhook_url})}
    return settings.model_copy(
        update={
            "sources": settings.sources.model_copy(update={**sources, "remember_ids_ms": HOUR_MS}),
            "queries": settings.queries.model_copy(update={"directory": folder / "queries"}),
            "alerting": settings.alerting.model_copy(update={"receivers": receivers}),
            "store": settings.store.model_copy(
                update={"directory": folder / "store", "retention": Retention().model_copy(update=hour)}
            ),
        }
    )


def run(given: Given) -> Verdict:
    """Ten hours."""
    started_s = time.monotonic()
    samples = soaked(given.folder, HOURS, 60 * given.minutes)
    wall_s = time.monotonic() - started_s
    return judged(samples, wall_s)


def judged(samples: Sequence[Sample], wall_s: float) -> Verdict:
    """The fit, over what comes after the time in which what is kept by design fills up."""
    steady = [sample for sample in samples if sample.hours > WARM_HOURS]
    hours = samples[-1].hours
    failures = []
    if hours < HOURS:
        failures.append(f"{hours:.1f} h of event time in {wall_s:.0f} s, expected {HOURS:g}")
    if len(steady) < 5:
        return Verdict(f"{hours:.1f} h of event time in {wall_s:.0f} s: too few for a fit", tuple(failures))
    columns = {
        "memory": ("MiB", [sample.memory for sample in steady]),
        "open files": ("", [sample.n_open for sample in steady]),
        "checkpoint": ("KiB", [sample.checkpoint for sample in steady]),
        "step time": ("s", [sample.step_s for sample in steady]),
    }
    fits = {name: slope([sample.hours for sample in steady], values) for name, (_, values) in columns.items()}
    for name, fit in fits.items():
        if fit.high > BOUNDS[name]:
            failures.append(f"{name}: {fit.text(columns[name][0])}, bound {BOUNDS[name]:.0%} an hour")
    shown = "; ".join(f"{name} {fit.text(columns[name][0])}, bound {BOUNDS[name]:.0%}" for name, fit in fits.items())
    alerts = sorted(sample.n_alerts for sample in samples)
    if alerts[0] != alerts[-1]:
        failures.append(f"a loop raised {alerts[0]} alerts, another {alerts[-1]}: {[s.n_alerts for s in samples]}")
    return Verdict(
        f"{hours:.1f} h of event time in {wall_s:.0f} s, {alerts[0]} to {alerts[-1]} alerts a loop; from hour "
        f"{WARM_HOURS:g} on: {shown}",
        tuple(failures),
    )
