"""The store of a process that makes its steps: no other one does as long as this one lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from app.errors import DamageError, OwnershipError, StoreError
from app.live.assembly import open_configured_store
from app.process.lock import only_process
from app.settings import Settings
from app.store.api import Store
from app.store.owner import RENEW_S, this_process

log = structlog.get_logger(__name__)


DAMAGED = "damaged"
"""File in store.directory: the database was found damaged."""
LONGEST_DISOWN_S = 2.0
"""A database that hangs holds up no end: whoever comes next finds the process gone."""


def told_by_next_transaction(_error: OwnershipError) -> None:
    """The next transaction says it."""


@contextmanager
def owned_store(
    settings: Settings,
    command: str,
    *,
    durable: bool = True,
    take_over: bool = False,
    on_lost: Callable[[OwnershipError], None] = told_by_next_transaction,
) -> Iterator[Store]:
    """Open the store of the settings as its one owner, in its folder and in the database; raises AppError.

    `take_over`: although the owner, on a machine that is lost, seemed to live a moment ago. `on_lost` is called, by
    another thread, when somebody has done so to this process.
    """
    with only_process(settings.store.directory, command=command) as lock:
        by = this_process(command, settings.store.directory, lock)
        with (
            _remembered_damage(settings.store.directory / DAMAGED),
            open_configured_store(settings, durable=durable, by=by, take_over=take_over) as store,
        ):
            _refuse_damaged(store, settings.store.directory / DAMAGED)
            renewal = _Renewal(store, on_lost)
            renewal.start()
            try:
                yield store
            finally:
                renewal.stop()
                telling = threading.Thread(target=_disown, args=(store,), name="disown", daemon=True)
                telling.start()
                telling.join(LONGEST_DISOWN_S)


@contextmanager
def _remembered_damage(mark: Path) -> Iterator[None]:
    """Keep that the database is damaged: the next process would find it only when it comes to the place."""
    try:
        yield
    except DamageError as error:
        with suppress(OSError):
            mark.write_text(f"{error}\n", encoding="utf-8")
        raise


def _refuse_damaged(store: Store, mark: Path) -> None:
    """After a process that ended by damage the whole database is looked at; raises DamageError."""
    if mark.exists():
        log.info("an earlier process found the database damaged; it is looked at as a whole", file=str(mark))
        store.check_content()
        mark.unlink(missing_ok=True)


class _Renewal:
    """A thread that says that the owner lives, also while a step takes long; not waited for at the end."""

    def __init__(self, store: Store, on_lost: Callable[[OwnershipError], None]) -> None:
        self._store = store
        self._on_lost = on_lost
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ownership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _work(self) -> None:
        while not self._stopping.wait(RENEW_S):
            try:
                self._store.renew()
            except OwnershipError as error:
                if not self._stopping.is_set():
                    self._on_lost(error)
                return
            except StoreError as error:  # steps meet the same and tell it
                log.debug("the ownership cannot be renewed now", reason=str(error))


def _disown(store: Store) -> None:
    try:
        store.disown()
    except StoreError as error:
        log.warning("the store still names this process as its owner", reason=str(error))
