"""`python -m spark_jobs.query.worker`: one query over the event store, asked by a process that shows its rows.

One JSON object on standard input (the request and its limits), messages of `app.queries.messages` as JSON lines on
standard output. Where the store is and where Spark runs say the settings alone. SIGINT cancels what runs on executors,
and so does the end of standard input: nobody listens any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from pyspark.sql import SparkSession

import engine
from app.chosen_store import in_chosen_store
from app.commands.match.match import MAX_UNCOMPILED_EVENTS
from app.commands.spark_query import without_passwords
from app.config import load_settings
from app.errors import AppError
from app.process.give_way import give_way
from app.process.signals import ENDING
from app.queries.aggregates import register_configured
from app.queries.messages import (
    End,
    EndReason,
    Failure,
    HistoryLimits,
    Message,
    Note,
    QueryRequest,
    Tasks,
    as_json,
    assumes_end,
    n_chars,
    read_history_request,
    result_row,
)
from app.settings import Settings
from collectors.schema import load_event_types
from engine.errors import EngineError
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.interruption import GRACE_S, cancel_jobs
from spark_jobs.progress import watched
from spark_jobs.query.few_events import MOST_S, Found, find
from spark_jobs.query.job import as_job_errors, rows_of
from spark_jobs.query.output import as_match_row
from spark_jobs.query.report import warnings_of
from spark_jobs.query.rows import SPARK_CONF, Planned, RequestedQuery, columns_of, plan_rows
from spark_jobs.session import spark_session


class Teller:
    """Messages as lines, at once; from any thread."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def tell(self, message: Message) -> None:
        """One line."""
        with self._lock:
            self._out.write(json.dumps(as_json(message), allow_nan=False) + "\n")
            self._out.flush()


class Stopping:
    """Whether the run has to end before it is done, and by what.

    Whatever asks, jobs are cancelled again and again, so that the run fails wherever it is, and after GRACE_S the
    process is ended with its JVM. The main thread is never broken into: its connection to the JVM would be lost.
    """

    def __init__(self) -> None:
        self.reason: EndReason | None = None
        self._is_asked = threading.Event()
        self._is_done = threading.Event()

    @property
    def is_asked(self) -> bool:
        """True from the first call of `ask` on."""
        return self._is_asked.is_set()

    def ask(self, reason: EndReason | None = None) -> None:
        """`reason` None: nobody wants to know more; from any thread, and from a signal's handler."""
        if not self._is_asked.is_set():
            self.reason = reason
            self._is_asked.set()
            threading.Thread(target=self._cancel, daemon=True).start()

    def done(self) -> None:
        """The run has ended."""
        self._is_done.set()

    def _cancel(self) -> None:
        last = time.monotonic() + GRACE_S
        while time.monotonic() < last:
            cancel_jobs()
            if self._is_done.wait(1.0):
                return
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)  # with the JVM
        os._exit(1)


def main() -> int:
    """Run the request; 0 when the run said how it ended."""
    request, limits = read_history_request(sys.stdin.readline())
    give_way()
    stopping = Stopping()
    for number in ENDING:
        signal.signal(number, lambda _number, _frame: stopping.ask())
    threading.Thread(target=_end_with, args=(sys.stdin, stopping), daemon=True).start()
    with own_standard_output() as out:
        teller = Teller(out)
        try:
            answer(request, limits, in_chosen_store(load_settings()), teller.tell, stopping)
        except (AppError, EngineError) as error:
            teller.tell(Failure(without_passwords(str(error))))
        except BrokenPipeError:
            return 1
    return 1 if stopping.is_asked and stopping.reason is None else 0


def answer(
    request: QueryRequest,
    limits: HistoryLimits,
    settings: Settings,
    tell: Callable[[Message], None],
    stopping: Stopping,
) -> None:
    """Tell how far it is, the rows as they are found, and last an End; raises AppError or EngineError in its place.

    Tells no end when it was stopped for no reason.
    """
    for problem in register_configured(settings.queries.aggregates):
        tell(Note(str(problem)))
    requested = RequestedQuery(
        name=request.name,
        texts={**request.others, request.name: request.text},
        schema=load_event_types(),
        parameters={**request.others_parameters, request.name: request.parameters},
        aggregates=settings.queries.aggregates,
    )
    run = _Run(requested.compiled(), limits, tell, stopping)
    alarm = threading.Timer(limits.timeout_ms / 1000, stopping.ask, (EndReason.TIME_LIMIT,))
    alarm.daemon = True
    alarm.start()
    try:
        with as_job_errors(request.name):
            run.evaluate(requested, request, settings)
    except AppError:
        if not stopping.is_asked:  # else it is of what was cancelled
            raise
    finally:
        alarm.cancel()
        stopping.done()
    if not stopping.is_asked or stopping.reason is not None:
        tell(run.end())


@dataclass
class _Run:
    """One evaluation under way."""

    query: engine.CompiledQuery
    limits: HistoryLimits
    tell: Callable[[Message], None]
    stopping: Stopping
    started: float = field(default_factory=time.monotonic)
    n_events: int = 0
    n_rows: int = 0
    n_row_chars: int = 0
    capped: bool = False
    """A limit left rows out."""

    def evaluate(self, requested: RequestedQuery, request: QueryRequest, settings: Settings) -> None:
        found = self.found_here(requested, request, settings)
        if found is None and not self.stopping.is_asked:
            self.evaluate_on_spark(requested, request, settings)
        elif found is not None:
            self.give(found)

    def found_here(self, requested: RequestedQuery, request: QueryRequest, settings: Settings) -> Found | None:
        """The rows without Spark, where the events are few and on this machine."""
        self.tell(Tasks("Reading"))
        events = read_few(
            settings.event_store_url, self.query.distribution.types, columns_of(self.query), request.from_ms,
            request.to_ms, settings.spark.small_query_events,
        )  # fmt: skip
        if events is None:
            return None
        self.prepare_kernels(len(events))
        last_s = time.monotonic() + MOST_S
        return find(events, requested, enough=lambda: self.stopping.is_asked or time.monotonic() > last_s)

    def evaluate_on_spark(self, requested: RequestedQuery, request: QueryRequest, settings: Settings) -> None:
        """The job."""
        self.tell(Tasks("Starting Spark"))
        conf = {**SPARK_CONF, **settings.spark.conf}
        with spark_session("clustercep query", settings.spark.master, conf) as spark:
            store = EventStore.open(spark, settings.event_store_url)
            types = sorted(self.query.distribution.types)
            events = store.read(
                types=types, columns=columns_of(self.query), from_ms=request.from_ms, to_ms=request.to_ms
            )
            with self.watching(spark, "Counting events"):
                planned = plan_rows(events, requested)
            n_events = planned.counted.n_events
            self.prepare_kernels(n_events)
            with self.watching(spark, f"{n_events:,} events in {planned.division.n_parts:,} parts"):
                self.give(planned)

    def prepare_kernels(self, n_events: int) -> None:
        """Compile here, once, what workers of this machine would each compile."""
        if n_events > MAX_UNCOMPILED_EVENTS and not engine.kernels_are_compiled():
            self.tell(Tasks("Compiling the matching kernels: some minutes, once per machine and version"))
            engine.warm_kernels()

    def give(self, planned: Planned | Found) -> None:
        """The rows, and what should be known of them."""
        self.n_events = planned.counted.n_events
        self.give_rows(planned)
        for warning in warnings_of(planned):
            self.tell(Note(warning))

    def give_rows(self, planned: Planned | Found) -> None:
        """The rows; once they are as many as may be told, the rest is not looked for."""
        batches = rows_of(planned, in_order=False)
        for batch in batches:
            for row in batch.to_pylist():
                if self.is_full:
                    self.stopping.ask(EndReason.ROW_LIMIT)
                    return
                told = result_row(as_match_row(row))
                self.n_rows += 1
                self.n_row_chars += n_chars(told)
                self.capped = self.capped or told.capped
                self.tell(told)

    @contextmanager
    def watching(self, spark: SparkSession, what: str) -> Iterator[None]:
        """Tell how many tasks are done."""
        self.tell(Tasks(what))
        with watched(spark, lambda n_done, n_all: self.tell(Tasks(what, n_done, n_all))):
            yield

    @property
    def is_full(self) -> bool:
        return self.n_rows >= self.limits.max_rows or self.n_row_chars >= self.limits.max_row_chars

    def end(self) -> End:
        """How it ended, now."""
        return End(
            reason=self.stopping.reason or EndReason.FINISHED,
            n_events=self.n_events,
            n_rows=self.n_rows,
            n_rejected=0,  # warnings say it in words
            n_unfinished=0,
            n_late=0,
            capped=self.capped,
            assumes_end=assumes_end(self.query),
            seconds=round(time.monotonic() - self.started, 3),
        )


@contextmanager
def own_standard_output() -> Iterator[TextIO]:
    """Standard output for messages alone: the JVM and what else is loaded would write there too."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        yield out


def _end_with(stream: TextIO, stopping: Stopping) -> None:
    while stream.read(1):
        pass
    stopping.ask()


if __name__ == "__main__":
    sys.exit(main())
