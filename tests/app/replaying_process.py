"""A process of its own that follows a recording and may be killed at any moment: the next one goes on.

Its time is simulated and stands in the store: it goes on after the last step that was stored, so that a killed process
makes its polls again at the same times. It tells on standard output what it is at; `python -m` starts it.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from app.alerting.notifier import Notifier
from app.clock import SetClock, SystemClock
from app.commands.check import CheckReport
from app.config import load_settings
from app.live.assembly import checked_queries, endpoints_of
from app.process import outages
from app.process.logs import configure_logs
from app.process.owned_store import owned_store
from app.process.runner import Runner
from app.replay.demo import with_demo_parameters
from app.replay.recorded_rest import RecordedRest, serve
from app.replay.recording import Recording
from app.replay.replay import settings_for
from app.replay.spool import Spool
from app.settings import Settings, WebhookReceiver
from app.store import Store, schema

CONFIG = Path(__file__).parents[2] / "config.yaml"
RELOAD_EVERY, RESTART_EVERY = 20, 7
"""Steps between reloads, and between those after which everything is put together anew, in a process that is
disturbed."""


def main(recording_folder: Path, folder: Path, webhook_url: str, *, disturbed: bool) -> None:
    """Follow the recording to its end; the store and the growing files are in `folder`."""
    schema.BUSY_TIMEOUT_MS = 1_000  # a lock becomes an outage soon, and a busy machine does not
    outages.FIRST_RETRY_MS = 0  # and simulated time stands still in it
    Notifier.POLL_S = 0.05
    plain = load_settings(CONFIG, {})
    configure_logs(plain.log)
    recording = Recording.open(recording_folder, folder, plain.replay)
    clock = SetClock(recording.manifest.started_ms)
    with ExitStack() as opened:
        base_url = opened.enter_context(serve(RecordedRest(recording.folder / "rest.jsonl.gz"), clock))
        settings = settings_for(recording, _settings(plain, folder / "store", webhook_url), folder / "spool", base_url)
        store = opened.enter_context(owned_store(settings, "run", durable=False))
        notifier = Notifier(store, endpoints_of(settings), SystemClock())
        follow(recording, settings, store, notifier, clock, folder / "spool", disturbed=disturbed)
        print("told" if notifier.drain(300) else "not told", flush=True)
        notifier.stop()


def follow(
    recording: Recording,
    settings: Settings,
    store: Store,
    notifier: Notifier,
    clock: SetClock,
    spool_folder: Path,
    *,
    disturbed: bool,
) -> None:
    """From where the store stands to the recording's end; disturbed, with reloads and restarts now and then."""
    manifest, row = recording.manifest, store.checkpoint("live")
    clock.advance_to(manifest.started_ms if row is None else row.written_ms)
    spool = continued(Spool(recording, spool_folder))
    spool.advance(clock.now_ms())
    queries = checked_queries(settings)
    runner = Runner(settings, queries, store, notifier, clock, durable=False)
    notifier.start()
    step_ms = manifest.poll_interval_ms
    for number, now_ms in enumerate(range(manifest.started_ms + step_ms, manifest.ended_ms + step_ms + 1, step_ms)):
        if now_ms <= clock.now_ms():
            continue
        clock.advance_to(now_ms)
        spool.advance(now_ms)
        if disturbed and number % RESTART_EVERY == RESTART_EVERY - 1:
            runner.go_back()
            say("restart")
        runner.live.pipeline.boundary = say
        if disturbed and number % RELOAD_EVERY == RELOAD_EVERY - 1:
            assert runner.reload(lambda: CheckReport((), settings=settings, queries=queries)).ok
            say("reload")
        turn(runner)
    runner.live.pipeline.finish(clock.now_ms())
    notifier.wake()


def turn(runner: Runner) -> None:
    """Polls and their step; after an outage the same polls again."""
    told = False
    while True:
        polled = runner.outage is None
        for name in runner.live.sources:
            runner.poll(name)
        runner.step()
        if runner.outage is not None and not told:
            told = True
            say("outage")
        if polled and runner.outage is None:
            return


def continued(spool: Spool) -> Spool:
    """The files of the process before stay, as those of a cluster do: what they lack is appended."""
    for log in spool._logs:
        log.n_written_bytes = log.target.stat().st_size if log.target.exists() else 0
    return spool


def say(what: str) -> None:
    """One line for who watches."""
    print(what, flush=True)


def _settings(plain: Settings, store: Path, webhook_url: str) -> Settings:
    receivers = {
        "ops": WebhookReceiver.model_validate({"url": webhook_url, "first_retry": "10 ms", "max_retry": "20 ms"})
    }
    return with_demo_parameters(plain).model_copy(
        update={
            "store": plain.store.model_copy(update={"directory": store}),
            "alerting": plain.alerting.model_copy(update={"receivers": receivers}),
        }
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], disturbed=sys.argv[4:] == ["disturbed"])
