"""Somebody sets the machine's clock while `clustercep run` follows a cluster whose own clocks are right.

On injected clocks, second by second: a line of the cluster's log every three seconds is an alert. A jump that is undone
within the time after which it would be believed (`SteadyClock`) must stop nothing. After the correction of one that was
believed alerts come again within two intervals of the sources; while it was ahead all that came was late, and the
process not ready. Where no clock tells that the machine slept alerts come two intervals later, since that is a jump
like others and has to last. One process is real, its clock set by libfaketime where that is installed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from app.alerting.notifier import Notifier
from app.clock import JUMP_MS, SteadyClock
from app.commands.check import check_all
from app.config import load_settings
from app.live.assembly import checked_queries, open_configured_store
from app.process.control_requests import ControlRequests
from app.process.runner import Runner
from app.process.supervisor import Supervisor
from app.store import Store
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import LOG, line

T0_MS = 1_700_000_000_000
HOUR_S, DAY_S = 3_600, 86_400
INTERVAL_S, LATENESS_S = 15, 5
HOLD_S = 2 * INTERVAL_S
"""For so long a jump has to last."""

WARM_S, AFTER_S = 60, 180
"""Before the clock is set, and after it is right again."""

LINE_S = 3
"""Between two lines of the log."""

QUERY = """
PATTERN NodeLost a WHERE skip_till_any_match { [host] } WITHIN 1 minute
RETURN a.host ALERT critical '{host}' GROUP_GAP 1 second
"""


@dataclass(frozen=True)
class Trial:
    """What happens to the clock."""

    name: str
    off_s: Callable[[float], float]
    """Seconds since the clock was first set -> what the clock shows beside the true time, in seconds."""
    wrong_s: float
    """So long it is wrong."""
    suspended_s: float = 0.0
    """So long the machine sleeps when the clock would be set."""
    knows_sleep: bool = True
    """The clock that nobody sets goes on in it."""

    @property
    def is_passed_over(self) -> bool:
        """It is over before it would be believed, or no jump at all."""
        return self.wrong_s < HOLD_S and not self.suspended_s


@dataclass(frozen=True)
class Seen:
    """What came of a trial, in seconds of true time."""

    trial: Trial
    longest_gap_s: float
    """Between two alerts, over all of it but a sleep."""
    until_alert_s: float | None
    """From when the clock was right again (the machine awake) to the next alert. None: none came."""
    n_missing: int
    """Lines of the log for which there is no alert."""
    not_ready: tuple[str, ...]
    """Reasons, as they were told."""
    unready_s: float


def trials(chosen: random.Random) -> list[Trial]:
    """All kinds, their lengths drawn."""
    made = []
    for shown, by_s in (("1 h", HOUR_S), ("1 day", DAY_S)):
        for sign in (1, -1):
            for lasts_s in (chosen.uniform(1, 5), chosen.uniform(5, HOLD_S - 3), chosen.uniform(HOLD_S + 20, 600)):
                name = f"{'+' if sign > 0 else '-'}{shown} for {lasts_s:.0f} s"
                made.append(Trial(name, lambda _since, by=sign * by_s: by, lasts_s))  # type: ignore[misc]
    slope = chosen.uniform(0.0005, 0.005)
    most_s = JUMP_MS / 1000 - 1
    for sign in (1, -1):
        made.append(Trial(
            f"drift of {sign * slope:+.2%} until {most_s:g} s off",
            lambda since, by=sign * slope: by * since,  # type: ignore[misc]
            most_s / slope,
        ))  # fmt: skip
    made += [Trial(f"suspended {s:.0f} s", lambda _since: 0.0, 0.0, s) for s in (chosen.uniform(60, 600), HOUR_S)]
    made.append(Trial(f"suspended {HOUR_S} s, no clock knows", lambda _since: 0.0, 0.0, HOUR_S, knows_sleep=False))
    return made


class Machine:
    """True time, the machine's clock, and those that nobody sets."""

    def __init__(self) -> None:
        self.true_s = 0.0
        self.off_s = 0.0
        self.asleep_s = 0.0
        self.knows_sleep = True

    def now_ms(self) -> int:
        """The clock."""
        return self.true_ms + round(1000 * self.off_s)

    @property
    def true_ms(self) -> int:
        """What it should show."""
        return T0_MS + round(1000 * self.true_s)

    def elapsed_ms(self) -> int:
        """As CLOCK_BOOTTIME, or as CLOCK_MONOTONIC where there is no such clock."""
        return round(1000 * (self.true_s if self.knows_sleep else self.monotonic_s()))

    def monotonic_s(self) -> float:
        """As CLOCK_MONOTONIC: it stands still while the machine sleeps."""
        return 1_000.0 + self.true_s - self.asleep_s


class Simulated:
    """The program's process on such a machine, and a cluster that loses a node every few seconds."""

    def __init__(self, folder: Path, machine: Machine, store: Store) -> None:
        settings = load_settings(folder / "config.yaml", {})
        clock = SteadyClock(machine, machine.elapsed_ms)
        self.store, self.machine = store, machine
        self.log = folder / "logs" / LOG
        self.n_lines = 0
        self.alerts_s: list[float] = []
        self.not_ready: dict[str, float] = {}
        self.runner = Runner(
            settings, checked_queries(settings), store, Notifier(store, {}, clock), clock, durable=False,
            monotonic=machine.monotonic_s,
        )  # fmt: skip
        self.process = Supervisor(self.runner, Notifier(store, {}, clock), ControlRequests(), lambda: check_all(None))
        self.process._follow()
        self._polled_s = -INTERVAL_S * 1.0
        self._n_alerts = 0

    def second(self) -> None:
        """One second of true time, with what the process does in it."""
        machine = self.machine
        machine.true_s += 1
        if round(machine.true_s) % LINE_S == 0:
            self.lose_node()
        if machine.monotonic_s() - self._polled_s >= INTERVAL_S:
            self._polled_s = machine.monotonic_s()
            for name in self.runner.live.sources:
                self.process._jobs._polled(name)
        n_steps = self.runner.n_steps
        self.process.step()
        # Alerts come of steps alone.
        if self.runner.n_steps > n_steps and (n := self.store.n_alerts()) > self._n_alerts:
            self._n_alerts = n
            self.alerts_s.append(machine.true_s)
        is_ready, why = self.process.ready()
        if not is_ready:
            reason = "".join(c for c in why if not c.isdigit())
            self.not_ready[reason] = self.not_ready.get(reason, 0.0) + 1

    def lose_node(self) -> None:
        """A line in the cluster's log, at the true time."""
        self.n_lines += 1
        with self.log.open("a") as log:
            log.write(line(self.machine.true_ms, f"n{self.n_lines}:8041 Node Transitioned from RUNNING to LOST"))

    def sleep(self, seconds: float) -> None:
        """The machine is suspended; the cluster is not."""
        machine = self.machine
        end_s = machine.true_s + seconds
        while machine.true_s + 60 <= end_s:
            machine.true_s += 60
            self.lose_node()
        machine.true_s = end_s
        machine.asleep_s += seconds


def tried(trial: Trial, folder: Path) -> Seen:
    """Let it happen."""
    machine = Machine()
    machine.knows_sleep = trial.knows_sleep
    with simulated(folder, machine) as process:
        while machine.true_s < WARM_S + trial.wrong_s * (not trial.is_passed_over):  # longer than it is wrong
            process.second()
        begun_s = machine.true_s
        if trial.suspended_s:
            process.sleep(trial.suspended_s)
        while machine.true_s - begun_s < trial.wrong_s:
            machine.off_s = trial.off_s(machine.true_s - begun_s)
            process.second()
        machine.off_s = 0.0
        right_s = machine.true_s
        while machine.true_s < right_s + AFTER_S:
            process.second()
        after = [at_s for at_s in process.alerts_s if at_s > right_s]
        told = [0.0, *(at_s - (trial.suspended_s if at_s >= right_s else 0.0) for at_s in process.alerts_s)]
        n_undecided = (INTERVAL_S + LATENESS_S) // LINE_S + 1
        return Seen(
            trial,
            max(later - earlier for earlier, later in pairwise(told)),
            after[0] - right_s if after else None,
            max(0, process.n_lines - process.store.n_alerts() - n_undecided),
            tuple(reason for reason in process.not_ready if "no step was made yet" not in reason),
            sum(process.not_ready.values()),
        )


@contextmanager
def simulated(folder: Path, machine: Machine) -> Iterator[Simulated]:
    """A process in a folder of its own."""
    write_config(folder, f"{INTERVAL_S} s", f"{LATENESS_S} s")
    with open_configured_store(load_settings(folder / "config.yaml", {}), durable=False) as store:
        process = Simulated(folder, machine, store)
        yield process
        process.runner.stop(60)


def write_config(folder: Path, interval: str, lateness: str, **more: object) -> Path:
    """One source and one query; returns the file."""
    for name in ("queries", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "logs" / LOG).touch()
    (folder / "queries/lost.cep").write_text(QUERY)
    (folder / "queries/RUNBOOK.md").write_text("# lost\nLook.\n")
    source = {"enabled": True, "directory": "logs", "interval": interval, "lateness": lateness}
    settings = {"sources": {"daemon_log": source}, "store": {"directory": "store"}, "web": {"enabled": False}, **more}
    (folder / "config.yaml").write_text(json.dumps(settings))  # which YAML is, too
    return folder / "config.yaml"


def judged(seen: Seen) -> list[str]:
    """Which bounds are broken."""
    trial, failures = seen.trial, []
    # A line waits for the next poll and for the sources' lateness; those of the second before are the alert before.
    if trial.is_passed_over and seen.longest_gap_s > 2 * INTERVAL_S:
        failures.append(f"{trial.name}: {seen.longest_gap_s:.0f} s without an alert, expected {2 * INTERVAL_S} at most")
    believed_s = 0 if trial.knows_sleep else HOLD_S
    if seen.until_alert_s is None or seen.until_alert_s > believed_s + 2 * INTERVAL_S:
        failures.append(
            f"{trial.name}: the next alert came {seen.until_alert_s} s after the clock was right, "
            f"expected {believed_s + 2 * INTERVAL_S} at most"
        )
    if (trial.is_passed_over or trial.suspended_s) and seen.n_missing:
        failures.append(f"{trial.name}: {seen.n_missing} alerts are missing")
    least_s = trial.wrong_s - HOLD_S - 3 * INTERVAL_S
    if trial.name.startswith("+") and seen.unready_s < least_s:
        failures.append(f"{trial.name}: not ready for {seen.unready_s:.0f} s, expected {least_s:.0f} at least")
    if seen.unready_s > max(0.0, trial.wrong_s - HOLD_S) + 2 * INTERVAL_S:
        failures.append(f"{trial.name}: not ready for {seen.unready_s:.0f} s, longer than it was wrong")
    if trial.is_passed_over and seen.not_ready:
        failures.append(f"{trial.name}: not ready though alerts came: {seen.not_ready}")
    return failures


def run(given: Given) -> Verdict:
    """Round after round with other lengths, then a real process."""
    chosen = random.Random(given.seed)
    started_s, seen, failures = time.monotonic(), list[Seen](), list[str]()
    while not seen or time.monotonic() - started_s < 60 * given.minutes - 90:
        for trial in trials(chosen):
            seen.append(tried(trial, given.folder / f"{len(seen)}"))
            failures += judged(seen[-1])
    real = _real(given.folder / "real")
    return Verdict(f"{figures(seen)}; {real[0]}", (*failures, *real[1]))


def figures(seen: list[Seen]) -> str:
    """One line."""
    over = [one for one in seen if one.trial.is_passed_over]
    slept = [one for one in seen if one.trial.suspended_s]
    believed = [one for one in seen if one not in over and one not in slept]
    forward = [one for one in believed if one.trial.name.startswith("+")]
    return (
        f"{len(seen)} trials; {len(over)} jumps and drifts passed over: at most "
        f"{max(one.longest_gap_s for one in over):.0f} s between alerts (bound {2 * INTERVAL_S}), ready all the time; "
        f"{len(slept)} suspensions: next alert after {_longest(slept):.0f} s (bound {2 * INTERVAL_S}, "
        f"{HOLD_S + 2 * INTERVAL_S} where no clock tells it); "
        f"{len(believed)} jumps believed and corrected: next alert {_longest(believed):.0f} s after the correction "
        f"(bound {2 * INTERVAL_S}), of forward ones at most "
        f"{max((one.n_missing for one in forward), default=0)} alerts missing, "
        f"not ready for {sum(one.unready_s for one in forward):.0f} s of the "
        f"{sum(one.trial.wrong_s for one in forward):.0f} s that clocks were ahead"
    )


def _longest(seen: list[Seen]) -> float:
    return max((AFTER_S if one.until_alert_s is None else one.until_alert_s for one in seen), default=0.0)


# ------------------------------------------------------------------ a real one


def _real(folder: Path) -> tuple[str, list[str]]:
    """`clustercep run` whose clock jumps by a day for 4 s, forward and back: the lines of the log go on."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        return "no libfaketime here: no real clock was set", []
    config = write_config(folder, "1 s", "1 s")
    setting = folder / "setting"
    _set(setting, "+0")
    environment = {
        **os.environ, "LD_PRELOAD": str(found[0]), "FAKETIME_TIMESTAMP_FILE": str(setting), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "app.cli", "run", "-c", str(config)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    longest, failures = 0.0, list[str]()
    try:
        with open_configured_store(load_settings(config, {})) as store:
            told = _Told(store, folder / "logs" / LOG)
            told.until(2, 120)
            for by in ("+1d", "-1d"):
                for setting_text, seconds in ((by, 4.0), ("+0", 6.0)):
                    _set(setting, setting_text)
                    longest = max(longest, told.go_on(seconds))
            jumps = [problem.message for problem in store.problems() if problem.kind == "clock_jump"]
    finally:
        process.kill()
        process.wait()
    if longest > 8:
        failures.append(f"a real clock set by a day for 4 s: {longest:.1f} s without an alert, expected 8 at most")
    if not jumps:
        failures.append("a real clock was set, and no problem tells it")
    return (
        f"a real clock by a day for 4 s, twice: at most {longest:.1f} s between alerts at an interval of 1 s",
        failures,
    )


class _Told:
    """Nodes that are lost, and how long the process takes from one alert to the next."""

    def __init__(self, store: Store, log: Path) -> None:
        self._store, self._log = store, log
        self._n_lines = 0

    def until(self, n: int, limit_s: float) -> None:
        """Go on until there are so many alerts; raises TimeoutError."""
        started_s = time.monotonic()
        while self._store.n_alerts() < n:
            if time.monotonic() - started_s > limit_s:
                raise TimeoutError(f"no alert within {limit_s:g} s")
            self._lose()

    def go_on(self, seconds: float) -> float:
        """For so long; returns the longest time without a new alert."""
        started_s = told_s = time.monotonic()
        longest_s, n = 0.0, self._store.n_alerts()
        while (now_s := time.monotonic()) - started_s < seconds:
            self._lose()
            if (n_now := self._store.n_alerts()) > n:
                n, told_s = n_now, now_s
            longest_s = max(longest_s, now_s - told_s)
        return longest_s

    def _lose(self) -> None:
        self._n_lines += 1
        with self._log.open("a") as log:
            now_ms = time.time_ns() // 1_000_000
            log.write(line(now_ms, f"n{self._n_lines}:8041 Node Transitioned from RUNNING to LOST"))
        time.sleep(0.2)


def _set(setting: Path, text: str) -> None:
    new = setting.with_suffix(".new")
    new.write_text(text)
    new.rename(setting)
