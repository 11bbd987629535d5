"""What is kept of alerts between requests: it is what would be made anew, and it is bounded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from app.alerting import operations
from app.alerting.people import Person
from app.alertmanager.active import Active, ActiveAlert
from app.alertmanager.alerts import AlertAnswers
from app.alertmanager.parameters import Wanted
from app.alertmanager.texts import AlertTexts
from app.store import Store, open_store
from app.store.models import AlertRow
from tests.app.alertmanager.served import NOW_MS, configured, fire, lost, slow

MIA = Person("mia")
SETTINGS = configured(none=True)
TOLD = b'[{"name":"none"}]'


def told(_alert: ActiveAlert) -> bytes:
    return TOLD


class Counted:
    """A store that counts which alerts are read whole."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def whole_alerts(self, alert_ids: Sequence[str]) -> dict[str, AlertRow]:
        self.read += alert_ids
        return self._store.whole_alerts(alert_ids)


def id_of(store: Store, task: str) -> str:
    return next(row.id for row in store.alerts() if row.key.get("task_id") == task)


CHANGES: dict[str, Callable[[Store], object]] = {
    "a further match": lambda store: fire(store, slow("t1", "n7", NOW_MS - 20_000)),
    "a match that begins before": lambda store: fire(store, slow("t1", "n1", NOW_MS - 90_000)),
    "acknowledged": lambda store: operations.acknowledge(store, id_of(store, "t1"), MIA, "mine", NOW_MS),
    "assigned": lambda store: operations.assign(store, id_of(store, "t1"), "eve", MIA, "", NOW_MS),
    "closed": lambda store: operations.close(store, id_of(store, "t1"), MIA, "done", NOW_MS),
    "another": lambda store: fire(store, lost("n4")),
}


@pytest.fixture
def other_opening(any_store: Store) -> Iterator[Store]:
    """The same store, as another process has it."""
    with open_store(any_store.engine.url.render_as_string(hide_password=False)) as opened:
        yield opened


def answer(store: Store, active: Active, texts: AlertTexts, **alerting: Any) -> list[dict[str, Any]]:
    settings = configured(none=True, **alerting)
    found: list[dict[str, Any]] = json.loads(
        b"".join(AlertAnswers(store, active, texts, settings, None, NOW_MS).alerts(Wanted()))
    )
    return found


@pytest.mark.parametrize("first", CHANGES)
@pytest.mark.parametrize("by_others", [False, True])
def test_answers_after_changes_are_those_of_one_that_remembers_nothing(
    any_store: Store, other_opening: Store, first: str, by_others: bool
) -> None:
    fire(any_store, slow("t1", "n1"), slow("t2", "n2"))
    active, texts = Active(any_store), AlertTexts(any_store)
    before = answer(any_store, active, texts)
    changing = other_opening if by_others else any_store
    assert len(before) == 2
    for name in [first, *(name for name in CHANGES if name not in (first, "closed"))]:
        if first == "closed" and name in ("acknowledged", "assigned"):
            continue
        CHANGES[name](changing)
        after = answer(any_store, active, texts)
        assert after == answer(any_store, Active(any_store), AlertTexts(any_store)), name
        assert after != before, name
        assert answer(any_store, active, texts) == after
        before = after


def test_alerts_that_stay_as_they_are_are_read_once(store: Store) -> None:
    fire(store, slow("t1", "n1"), slow("t2", "n2"))
    counted = Counted(store)
    active, texts = Active(store), AlertTexts(counted)  # type: ignore[arg-type]  # it has all of one
    answer(store, active, texts)
    assert len(counted.read) == 2
    answer(store, active, texts)
    assert len(counted.read) == 2
    CHANGES["assigned"](store)
    answer(store, active, texts)
    assert counted.read[2:] == [id_of(store, "t1")]


def test_a_store_that_nobody_changes_is_not_asked_which_alerts_there_are(store: Store) -> None:
    fire(store, slow("t1", "n1"), slow("t2", "n2"))
    asked: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_args: Any) -> None:
        asked.append(statement)

    active, texts = Active(store), AlertTexts(store)
    first = answer(store, active, texts)
    event.listen(store.engine, "before_cursor_execute", hear)
    assert answer(store, active, texts) == first
    assert [statement for statement in asked if "FROM alerts" in statement] == []
    CHANGES["assigned"](store)
    asked.clear()
    assert answer(store, active, texts) != first
    assert [statement for statement in asked if "FROM alerts" in statement] != []


def test_other_settings_are_other_texts_and_the_same_ones_read_anew_are_not(store: Store) -> None:
    fire(store, slow("t1", "n1"))
    counted = Counted(store)
    texts, alerts = AlertTexts(counted), [*Active(store).now().alerts.values()]  # type: ignore[arg-type]  # it has all of one
    here = configured(external_url="http://127.0.0.1:8501")
    (one,) = texts.of(alerts, here, told)
    assert texts.of(alerts, here.model_copy(), told) == [one]
    assert len(counted.read) == 1
    (other,) = texts.of(alerts, configured(external_url="http://127.0.0.1:9999"), lambda _alert: b"[]")
    assert one is not None
    assert other is not None
    assert b"127.0.0.1:8501" in one.rest
    assert b"127.0.0.1:9999" in other.rest
    assert b'"receivers":' + TOLD in one.to_status
    assert b'"receivers":[]' in other.to_status


def test_what_is_kept_is_bounded_and_the_one_asked_for_last_stays(store: Store) -> None:
    fire(store, *(slow(f"t{n}", "n1") for n in range(10)))
    alerts = [*Active(store).now().alerts.values()]
    size = max(sum(map(len, text)) for text in AlertTexts(store).of(alerts, SETTINGS, told) if text is not None)
    counted = Counted(store)
    texts = AlertTexts(counted, 4 * size)  # type: ignore[arg-type]  # it has all of one
    whole = texts.of(alerts, SETTINGS, told)
    assert None not in whole
    assert len(counted.read) == 10
    assert texts.of(alerts[-4:], SETTINGS, told) == whole[-4:]
    assert len(counted.read) == 10
    assert texts.of(alerts[:1], SETTINGS, told) == whole[:1]
    assert len(counted.read) == 11
    assert texts.of(alerts[-3:], SETTINGS, told) == whole[-3:]
    assert len(counted.read) == 11


def test_one_that_was_deleted_meanwhile_is_left_out(store: Store) -> None:
    fire(store, slow("t1", "n1"))
    (alert,) = Active(store).now().alerts.values()
    gone = replace(alert, id="0" * 32)
    texts = AlertTexts(store).of([gone, alert], SETTINGS, told)
    assert texts[0] is None
    assert texts[1] is not None
