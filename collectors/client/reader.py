"""Takes the lines of one file of a client's output: which line is of which job, and which lines belong together.

Progress lines name no job. They are of the job that was announced before ("Running job: ...") and has not ended; while
several run in one file (threads of one program, programs that append to one file) they are of the one in whose thread
they stand, if log4j prints threads; else nobody can tell, and they are left out. The same goes for counters, of the
jobs that have just ended. Diagnostics have no mark of their own: they stand between their line and the next record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from collectors.base import ProblemLog
from collectors.client import lines as of
from collectors.client.console import MAX_JOBS, ClientConsole, OpenJob, Told, Waiting
from collectors.client.counters import MAX_BLOCK_LINES, CounterBlock, attributes_of
from collectors.client.lines import ClientLine
from collectors.hadoop_ids import job_of, kind_of, task_of
from collectors.identity import lifecycle_id, record_id
from collectors.logs.times import MAX_RAW_CHARS
from collectors.printable import printable

MAX_TEXT_CHARS, MAX_TEXT_LINES = 2_000, 60
"""Of the diagnostics of one attempt or job."""
COUNTERS_WITHIN_MS = 600_000
"""Counters that come later after a job's end are not taken for its."""


class ConsoleReader:
    """Takes the lines of a file in their order."""

    def __init__(
        self, console: ClientConsole, zone: tzinfo, problems: ProblemLog, shown_path: str, abandon_ms: int, file: str
    ) -> None:
        """`file` identifies it; a job without a line for `abandon_ms` is over when another is announced."""
        self._console = console
        self._zone = zone
        self._problems = problems
        self._path = shown_path
        self._abandon_ms = abandon_ms
        self._file = file
        self._number, self._text = 0, ""
        self._parsed: tuple[str, ClientLine | None] = "", None

    def time_of(self, text: str) -> int | None:
        """When this line was written; None: it has no date of the client's or of a scheduler."""
        line = self._line(text)
        if line is not None:
            return None if line.times is None else line.times[0]
        plain = of.unwrapped(text)
        if found := of.RUN.match(plain):
            date = of.java_date(found[2], self._zone)
            return None if date is None else date[0][0]
        times = None if plain == text else of.wrapped_time(text, self._zone)
        return None if times is None else times[0]

    def _line(self, text: str) -> ClientLine | None:
        if self._parsed[0] is not text:
            self._parsed = text, of.client_line(text, self._zone)
        return self._parsed[1]

    def take(self, text: str, number: int) -> None:
        """Take a line without its end."""
        console = self._console
        self._number, self._text = number, text
        line = self._line(text)
        if console.block is not None and self._counter(line, text):
            return
        if line is not None:
            self._end_text()
            self._record(line)
            return
        plain = of.unwrapped(text)
        if console.waiting is not None:
            if of.is_record(plain, self._zone) or of.RUN.match(plain) or of.TOOK.match(plain):
                self._end_text()
            else:
                self._more_text(console.waiting, plain)
                return
        self._printed(plain, text)

    def end(self) -> None:
        """No further line is waited for."""
        self._end_text()
        self._end_verdict()
        if self._console.block is not None:
            self._end_block(self._console.block)

    # ---- text that goes on -------------------------------------------------------------------------------------

    def _more_text(self, waiting: Waiting, plain: str) -> None:
        shown = printable(plain.strip(), MAX_TEXT_CHARS)
        if shown:
            waiting.text.append(shown)
        if len(waiting.text) >= MAX_TEXT_LINES or sum(map(len, waiting.text)) >= MAX_TEXT_CHARS:
            self._end_text()

    def _end_text(self) -> None:
        waiting, self._console.waiting = self._console.waiting, None
        if waiting is not None:
            _tell(self._console, waiting)

    def _end_verdict(self, status: str | None = None, reason: str | None = None) -> None:
        waiting, self._console.verdict = self._console.verdict, None
        if waiting is not None:
            waiting.told.attributes["status"] = status
            waiting.text = [reason] if reason else []
            _tell(self._console, waiting)

    # ---- counters ----------------------------------------------------------------------------------------------

    def _counter(self, line: ClientLine | None, text: str) -> bool:
        """Whether the line is of the counters that are being read."""
        block = self._console.block
        assert block is not None
        if line is not None:
            is_taken = line.thread == block.thread and block.take_logged(line.message)
            ends = not is_taken and line.thread == block.thread
        else:
            is_taken = block.take_printed(of.unwrapped(text))
            ends = not is_taken and (block.is_printed or block.n_lines >= MAX_BLOCK_LINES)
        if ends or block.is_whole:
            self._end_block(block)
        return is_taken

    def _end_block(self, block: CounterBlock) -> None:
        console, console.block = self._console, None
        place = f"{self._path}:{block.number}"
        if not block.is_whole:
            message = f"{block.n_read} of {block.n_expected} counters stand here; what there is is used"
            self._problems.report(place, "truncated", message, key=(self._file, "counters", block.number))
        if block.job_id is None or block.times is None or not block.n_read:
            return
        console.told.append(
            Told(
                "ClientJobCounters",
                lifecycle_id("ClientJobCounters", block.job_id),
                block.times,
                block.job_id,
                attributes_of(block),
                block.number,
                place,
                block.raw,
            )
        )

    # ---- records -----------------------------------------------------------------------------------------------

    def _record(self, line: ClientLine) -> None:
        for pattern, logger, take in _RECORDS:
            if logger == line.logger or (logger == "Job" and line.logger in ("JobClient", "StreamJob")):
                found = pattern.match(line.message)
                if found is not None:
                    take(self, line, found)
                    return

    def _running(self, line: ClientLine, found: re.Match[str]) -> None:
        console, job_id = self._console, found[1]
        self._end_verdict()
        now_ms = None if line.times is None else line.times[0]
        for other, job in list(console.jobs.items()):
            last_ms = job.last_ms
            if other == job_id or (now_ms is not None and last_ms is not None and now_ms - last_ms > self._abandon_ms):
                del console.jobs[other]
        if len(console.jobs) >= MAX_JOBS:
            del console.jobs[next(iter(console.jobs))]
        console.jobs[job_id] = OpenJob(line.thread, now_ms, now_ms)
        if _is_local(job_id):
            message = f"{job_id} runs in the client itself, not in the cluster (mapreduce.framework.name is local)"
            self._problems.report(self._place(), "local_job", f"{message}: left out", key=(self._file, "local_job"))
            return
        application = "application" + job_id.removeprefix("job")
        known = application in console.urls
        told = {
            "application_id": application if known else None,
            "tracking_url": console.urls.pop(application, None),
        }
        self._tell("ClientJobStart", line, job_id, told)

    def _progress(self, line: ClientLine, found: re.Match[str]) -> None:
        percent = int(found[1]), int(found[2])
        job_id = self._job_of(line)
        if job_id is None or max(percent) > 100:
            return
        job = self._console.jobs[job_id]
        if line.times is None:
            self._without_time()
            return
        t_ms = line.times[0]
        same = [t_ms, *percent]
        n_before = job.printed[3] + 1 if job.printed[:3] == same else 0
        job.printed, job.last_ms = [*same, n_before], t_ms
        elapsed_ms = None if job.started_ms is None else t_ms - job.started_ms
        told = {
            "map_progress": percent[0] / 100,
            "reduce_progress": percent[1] / 100,
            "elapsed_ms": elapsed_ms if elapsed_ms is None or elapsed_ms >= 0 else None,
        }
        event_id = record_id(("job_client_log", job_id), "ClientJobProgress", t_ms, percent, n_before)
        self._tell("ClientJobProgress", line, job_id, told, event_id)

    def _job_of(self, line: ClientLine) -> str | None:
        """The job whose progress a line tells; None, with a problem: that is not known."""
        jobs = self._console.jobs
        mine = [job_id for job_id, job in jobs.items() if job.thread == line.thread]
        if len(mine) == 1:
            return None if _is_local(mine[0]) else mine[0]
        if not mine:
            message = "progress of a job that no line before announces ('Running job: ...'): its lines are left out"
            self._problems.report(self._place(), "no_job", message, key=(self._file, "no_job"))
        else:
            named = ", ".join(mine[:3])
            message = (
                f"progress while {len(mine)} jobs run in this file ({named}): which one's is not said, so such lines "
                "are left out; give each client a file of its own, or have log4j print the thread ([%t])"
            )
            self._problems.report(self._place(), "ambiguous", message, key=(self._file, "ambiguous"))
        return None

    def _attempt(self, line: ClientLine, found: re.Match[str]) -> None:
        attempt_id, status = found[1], found[2]
        if "local" in attempt_id:
            return
        self._alive(line, job_of(attempt_id))
        told = {
            "task_id": task_of(attempt_id),
            "attempt_id": attempt_id,
            "task_type": kind_of(attempt_id),
            "status": status,
        }
        event = self._event(
            "ClientAttemptEnd", line, job_of(attempt_id), told, lifecycle_id("ClientAttemptEnd", attempt_id)
        )
        if event is not None:
            event.attributes["reason"] = None
            # Diagnostics are printed of those that failed alone.
            if status in ("FAILED", "TIPFAILED"):
                self._console.waiting = Waiting(event, [], "reason")
            else:
                self._console.told.append(event)

    def _completed(self, line: ClientLine, found: re.Match[str]) -> None:
        self._ended(line, found[1], "SUCCEEDED", None)

    def _failed(self, line: ClientLine, found: re.Match[str]) -> None:
        self._ended(line, found[1], found[2], found[3])

    def _complete(self, line: ClientLine, found: re.Match[str]) -> None:
        self._ended(line, found[1], None, None)

    def _ended(self, line: ClientLine, job_id: str, status: str | None, reason: str | None) -> None:
        console = self._console
        self._end_verdict()
        job = console.jobs.pop(job_id, None)
        end_ms = None if line.times is None else line.times[0]
        if len(console.ended) >= MAX_JOBS:
            del console.ended[next(iter(console.ended))]
        console.ended[job_id] = [line.thread, end_ms]
        if _is_local(job_id):
            return
        console.run_jobs = [*console.run_jobs[-MAX_JOBS:], job_id]
        started_ms = None if job is None else job.started_ms
        period_ms = None if started_ms is None or end_ms is None or end_ms < started_ms else end_ms - started_ms
        event = self._event("ClientJobEnd", line, job_id, {"status": status, "period_ms": period_ms})
        if event is None:
            return
        event.attributes["reason"] = None
        if status == "SUCCEEDED":
            console.told.append(event)
        elif status is None:
            console.verdict = Waiting(event, [], "reason", verdict=True)
        else:
            console.waiting = Waiting(event, [], "reason")
            if reason:
                self._more_text(console.waiting, reason)

    def _failed_1(self, _: ClientLine, found: re.Match[str]) -> None:
        self._end_verdict("FAILED", printable(found[1], MAX_TEXT_CHARS) if found[1] else None)

    def _succeeded_1(self, _: ClientLine, __: re.Match[str]) -> None:
        self._end_verdict("SUCCEEDED")

    def _counters(self, line: ClientLine, found: re.Match[str]) -> None:
        ended, t_ms = self._console.ended, None if line.times is None else line.times[0]
        for each, (_, end_ms) in list(ended.items()):
            if end_ms is not None and t_ms is not None and t_ms - end_ms > COUNTERS_WITHIN_MS:
                del ended[each]
        mine = [each for each, (thread, _) in ended.items() if thread == line.thread]
        job_id: str | None = mine[0] if len(mine) == 1 else None
        for each in mine:
            del ended[each]
        if not mine:
            message = "counters of a job of whose end no line before tells: they are left out"
            self._problems.report(self._place(), "no_job", message, key=(self._file, "no_job counters"))
        elif job_id is None:
            message = (
                f"counters after the ends of {len(mine)} jobs ({', '.join(mine[:3])}): whose is not said; left out"
            )
            self._problems.report(self._place(), "ambiguous", message, key=(self._file, "ambiguous counters"))
        elif _is_local(job_id):
            job_id = None
        elif line.times is None:
            self._without_time()
        if int(found[1]):
            self._console.block = CounterBlock(
                job_id, line.times, line.thread, int(found[1]), self._number, self._raw()
            )

    def _submitted(self, _: ClientLine, found: re.Match[str]) -> None:
        self._remember(found[1], None)

    def _url(self, _: ClientLine, found: re.Match[str]) -> None:
        application = of.APPLICATION_IN_URL.match(found[1])
        if application is not None:
            self._remember(application[1], printable(found[1]))

    def _remember(self, application: str, url: str | None) -> None:
        urls = self._console.urls
        if application not in urls and len(urls) >= MAX_JOBS:
            del urls[next(iter(urls))]
        urls[application] = url

    def _not_launched(self, line: ClientLine, found: re.Match[str]) -> None:
        """By streaming, before there is a job."""
        reason = printable(found[1], MAX_TEXT_CHARS)
        if line.times is not None:
            event_id = record_id(("job_client_log",), "ClientLaunchFailed", line.times[0], (reason,), 0)
            told = {"user": None, "reason": reason or None}
            self._tell("ClientLaunchFailed", line, None, told, event_id)
        else:
            self._without_time()

    def _cleaning(self, line: ClientLine, found: re.Match[str]) -> None:
        """The submitter gives a job up that has its number, and the program says why below."""
        if _is_local(found[2]):
            return
        user = of.USER_OF_STAGING.match(found[1])
        event = self._event("ClientLaunchFailed", line, found[2], {"user": user and printable(user[1])})
        if event is not None:
            event.attributes["reason"] = None
            self._console.waiting = Waiting(event, [], "reason")

    # ---- lines of the program ----------------------------------------------------------------------------------

    def _printed(self, plain: str, text: str) -> None:
        """What Hadoop's examples, and programs after their model, print of themselves."""
        console = self._console
        if found := of.RUN.match(plain):
            date = of.java_date(found[2], self._zone)
            if date is not None and date[1] is not None:
                message = (
                    f"the program's clock says {date[1]}, and another zone is configured for these lines: set "
                    "sources.job_client_log.time_zone (of `clustercep ingest` --time-zone)"
                )
                self._problems.report(self._place(), "time_zone", message, key=(self._file, "time_zone"))
            if found[1] == "started":
                console.run_jobs, console.run_ended = [], None
            else:
                console.run_ended = None if date is None else list(date[0])
        elif found := of.TOOK.match(plain):
            jobs, ended = console.run_jobs, console.run_ended
            console.run_jobs, console.run_ended = [], None
            times = (ended[0], ended[1]) if ended is not None else of.wrapped_time(text, self._zone)
            if times is None:
                message = "how long a program took, without the date of its end ('Job ended: ...' before it): left out"
                self._problems.report(self._place(), "no_time", message, key=(self._file, "no_time of its end"))
                return
            line = ClientLine(times, "", "", plain)
            job_id = jobs[0] if len(jobs) == 1 else None
            took_ms = int(found[1]) * 1000
            subject = (job_id or "", len(jobs), took_ms)
            event_id = record_id(("job_client_log",), "ClientRunEnd", times[0], subject, 0)
            self._tell("ClientRunEnd", line, job_id, {"n_jobs": len(jobs), "took_ms": took_ms}, event_id)

    # ---- events ------------------------------------------------------------------------------------------------

    def _tell(
        self, event_type: str, line: ClientLine, job_id: str | None, told: dict[str, Any], event_id: str | None = None
    ) -> None:
        event = self._event(event_type, line, job_id, told, event_id)
        if event is not None:
            self._console.told.append(event)

    def _event(
        self, event_type: str, line: ClientLine, job_id: str | None, told: dict[str, Any], event_id: str | None = None
    ) -> Told | None:
        """The event of a line; None, with a problem: it has no time."""
        if line.times is None:
            self._without_time()
            return None
        if event_id is None:
            assert job_id is not None
            event_id = lifecycle_id(event_type, job_id)
        return Told(event_type, event_id, line.times, job_id, told, self._number, self._place(), self._raw())

    def _alive(self, line: ClientLine, job_id: str) -> None:
        job = self._console.jobs.get(job_id)
        if job is not None and line.times is not None:
            job.last_ms = line.times[0]

    def _without_time(self) -> None:
        message = (
            "the lines of the job's client have no date, so that from here on nothing of them becomes an event: give "
            "the client's console log4j's pattern with a date ('%d{ISO8601} %p %c{2}: %m%n', as Hadoop ships it), or "
            "have the scheduler put a time before each line"
        )
        self._problems.report(self._place(), "no_time", message, key=(self._file, "no_time"))

    def _raw(self) -> str:
        """The line as it may be shown: most are not."""
        return printable(self._text, MAX_RAW_CHARS)

    def _place(self) -> str:
        return f"{self._path}:{self._number}"


def _tell(console: ClientConsole, waiting: Waiting) -> None:
    reason = printable(" ".join(waiting.text), MAX_TEXT_CHARS)
    waiting.told.attributes[waiting.names] = reason or None
    console.told.append(waiting.told)


def _is_local(job_id: str) -> bool:
    return job_id.startswith("job_local")


_RECORDS: tuple[tuple[re.Pattern[str], str, Callable[[ConsoleReader, ClientLine, re.Match[str]], None]], ...] = (
    (of.PROGRESS, "Job", ConsoleReader._progress),
    (of.RUNNING, "Job", ConsoleReader._running),
    (of.ATTEMPT, "Job", ConsoleReader._attempt),
    (of.COMPLETED, "Job", ConsoleReader._completed),
    (of.FAILED, "Job", ConsoleReader._failed),
    (of.COMPLETE, "Job", ConsoleReader._complete),
    (of.COUNTERS, "Job", ConsoleReader._counters),
    (of.FAILED_1, "JobClient", ConsoleReader._failed_1),
    (of.NOT_SUCCESSFUL, "StreamJob", ConsoleReader._failed_1),
    (of.OUTPUT, "StreamJob", ConsoleReader._succeeded_1),
    (of.LAUNCH_FAILED, "StreamJob", ConsoleReader._not_launched),
    (of.SUBMITTED, "YarnClientImpl", ConsoleReader._submitted),
    (of.URL, "Job", ConsoleReader._url),
    (of.CLEANING, "JobSubmitter", ConsoleReader._cleaning),
    (of.CLEANING, "JobClient", ConsoleReader._cleaning),
)
"""Form of a message, whose it is (Job: JobClient and StreamJob print the same), and what is done with it."""

__all__ = ["COUNTERS_WITHIN_MS", "ConsoleReader"]
