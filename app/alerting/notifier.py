"""A worker per receiver, so that one that hangs holds up nobody else, and one that tells groups of alerts when their
time has come; receivers and routes may change while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from app.alerting.delivery import Courier, DeliveryCounts, Down, Endpoint, Post, StoppedError, send
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.telling import Telling
from app.clock import Clock
from app.errors import OwnershipError, StoreError
from app.store.api import Store

log = structlog.get_logger(__name__)


class Notifier:
    """Wakes the workers when there is something to tell."""

    POLL_S = 5.0
    """How often the outbox is looked at unasked: commands of other processes write to it too."""

    def __init__(
        self,
        store: Store,
        endpoints: Mapping[str, Endpoint],
        clock: Clock,
        *,
        telling: Telling | None = None,
        post: Post = send,
        metrics: DeliveryCounts | None = None,
    ) -> None:
        """`telling`: how alerts are told together; None: groups are not looked at."""
        self._store = store
        self._clock = clock
        self._post = post
        self._metrics = metrics
        self._lock = threading.Lock()
        self._started = False
        self._workers = {name: self._worker(endpoint, None) for name, endpoint in endpoints.items()}
        self._leaving: list[_Worker] = []
        self._telling = telling
        self._groups = None if telling is None else self._dispatching(telling, None)

    def start(self) -> None:
        """Begin with what is left in the outbox."""
        with self._lock:
            self._started = True
            for worker in self._workers.values():
                worker.start()
            if self._groups is not None:
                self._groups.start()

    def follow(self, endpoints: Mapping[str, Endpoint], telling: Telling | None = None) -> None:
        """Tell these receivers, and in this way, from now on.

        A receiver that is gone, or told otherwise from now on, gets its attempt under way to the end; its successor
        waits for that. Messages that were not delivered stay in the outbox.
        """
        with self._lock:
            self._leaving = [worker for worker in self._leaving if worker.is_alive()]
            before, self._workers = self._workers, {}
            for name, endpoint in endpoints.items():
                known = before.get(name)
                if known is not None and known.endpoint == endpoint:
                    self._workers[name] = before.pop(name)
                    continue
                worker = self._workers[name] = self._worker(endpoint, known)
                if self._started:
                    worker.start()
            for worker in before.values():
                worker.leave()
                self._leaving.append(worker)
            self._follow_groups(telling)

    def _follow_groups(self, telling: Telling | None) -> None:
        before, self._telling = self._groups, telling
        if before is not None:
            before.leave()
            self._leaving.append(before)
        self._groups = None if telling is None else self._dispatching(telling, before)
        if self._groups is not None and self._started:
            self._groups.start()

    def wake(self) -> None:
        """There may be something new; returns at once."""
        with self._lock:
            if self._groups is not None:
                self._groups.wake()
            for worker in self._workers.values():
                worker.wake()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything is told or given up; False when the time is over first."""
        return all(worker.idle.wait(timeout_s) for worker in self._workers.values())

    def down(self) -> list[Down]:
        """Receivers that take no messages, as of this process's last attempts; waits for nobody."""
        with self._lock:
            found = [worker.down for worker in self._workers.values()]
        return [down for down in found if down is not None]

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop after the attempts under way, waiting so long for all of them; what is pending stays pending."""
        with self._lock:
            workers = [*self._workers.values(), *self._leaving]
            if self._groups is not None:
                workers.append(self._groups)
            self._workers, self._groups = {}, None
        for worker in workers:
            worker.leave()
        deadline_s = time.monotonic() + timeout_s
        for worker in workers:
            worker.join(max(0.0, deadline_s - time.monotonic()))

    def _worker(self, endpoint: Endpoint, predecessor: _Worker | None) -> _Worker:
        leaving = threading.Event()
        courier = Courier(
            self._store,
            endpoint,
            self._clock,
            post=self._post,
            stopping=leaving.is_set,
            metrics=self._metrics,
        )
        return _Worker(endpoint.name, courier, leaving, self.POLL_S, predecessor, endpoint=endpoint)

    def _dispatching(self, telling: Telling, predecessor: _Worker | None) -> _Worker:
        leaving = threading.Event()
        dispatcher = Dispatcher(self._store, telling, self._clock, stopping=leaving.is_set)
        return _Worker("groups", _Groups(dispatcher, self._wake_couriers), leaving, self.POLL_S, predecessor)

    def _wake_couriers(self) -> None:
        with self._lock:
            for worker in self._workers.values():
                worker.wake()


class _Work(Protocol):
    """What a worker does when it is woken, or when its time has come."""

    def deliver_pending(self) -> int:
        """Do what is due; raises StoppedError, StoreError."""
        ...

    def wait_ms(self) -> int | None:
        """How long until something is due; None: nothing waits."""
        ...

    @property
    def down(self) -> Down | None:
        """That its receiver takes no messages."""
        ...


class _Groups:
    """The dispatcher as the work of a thread."""

    down: Down | None = None

    def __init__(self, dispatcher: Dispatcher, told: Callable[[], None]) -> None:
        """`told` is called when there are new messages."""
        self._dispatcher = dispatcher
        self._told = told

    def deliver_pending(self) -> int:
        """See Dispatcher.dispatch_due."""
        n_messages = self._dispatcher.dispatch_due()
        if n_messages:
            self._told()
        return n_messages

    def wait_ms(self) -> int | None:
        """See Dispatcher.wait_ms."""
        return self._dispatcher.wait_ms()


class _Worker:
    """The thread of one receiver, or of the groups."""

    def __init__(
        self,
        name: str,
        courier: _Work,
        leaving: threading.Event,
        poll_s: float,
        predecessor: _Worker | None,
        *,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._name = name
        self.idle = threading.Event()
        self._courier = courier
        self._leaving = leaving
        self._poll_s = poll_s
        self._predecessor = predecessor
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._store_failed = False
        self._thread = threading.Thread(target=self._work, name=f"notify-{name}", daemon=True)

    def start(self) -> None:
        """Begin with what is pending."""
        self.wake()
        self._thread.start()

    def wake(self) -> None:
        """Look at the outbox soon."""
        with self._lock:
            self.idle.clear()
            self._awake.set()

    def leave(self) -> None:
        """Stop after the attempt under way."""
        self._leaving.set()
        self._awake.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    @property
    def down(self) -> Down | None:
        """That its receiver takes no messages."""
        return self._courier.down

    def _work(self) -> None:
        if self._predecessor is not None:
            self._predecessor.join()
            self._predecessor = None
        wait_s = self._poll_s
        while not self._leaving.is_set():
            self._awake.wait(wait_s)
            self._awake.clear()
            if self._leaving.is_set():
                return
            wait_s = self._poll_s
            try:
                self._courier.deliver_pending()
                wait_ms = self._courier.wait_ms()
            except StoppedError:
                return
            except OwnershipError as error:
                log.error("another process tells it", receiver=self._name, what=str(error))
                return
            except StoreError as error:
                self._store_refused(error)
            except Exception:  # a boundary: a thread that dies silently would tell nobody of any further alert
                log.exception("delivery failed; it is tried again", receiver=self._name)
                self._leaving.wait(self._poll_s)
            else:
                self._looked(is_empty=wait_ms is None)
                if wait_ms is not None:
                    wait_s = min(wait_s, wait_ms / 1000)

    def _looked(self, *, is_empty: bool) -> None:
        if self._store_failed:
            log.info("the outbox can be read again", receiver=self._name)
            self._store_failed = False
        with self._lock:
            if is_empty and not self._awake.is_set():
                self.idle.set()

    def _store_refused(self, error: StoreError) -> None:
        if not self._store_failed:
            log.error("the outbox cannot be used; it is tried again", receiver=self._name, error=str(error))
            self._store_failed = True
        self._leaving.wait(self._poll_s)
