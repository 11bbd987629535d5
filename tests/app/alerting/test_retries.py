"""Messages that are not taken at once: who waits for whom, what is overtaken, until when it is tried, what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, repeat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.alerting.delivery import Courier, Endpoint, PermanentDeliveryError, TemporaryDeliveryError, endpoint_of
from app.alerting.receivers.errors import CONNECTION
from app.alerting.receivers.service import Message
from app.alerting.recording.recorder import Recorder
from app.alerting.retries import back_off_ms, retry_after_ms
from app.clock import SetClock
from app.process.metrics.store import StoredFigures, store_metrics
from app.settings import Receiver
from app.store import Store, open_store
from app.store.models import AlertRow, NotificationRow
from tests.app.alerting.test_delivery import deliver_all, fill_outbox
from tests.app.alerting_fixtures import FakeMatch, hide, kept, options, receiver
from tests.app.silences import silencing_of
from tests.app.webhook import webhook
from tests.examples import examples

DAY_MS = 86_400_000
NOW_MS = 10_000_000


@pytest.fixture
def clock() -> SetClock:
    return SetClock(NOW_MS)


def task(name: str, start_ms: int = 1, end_ms: int = 2) -> FakeMatch:
    return FakeMatch(start_ms, end_ms, key=(("task_id", name),), values={"task_id": name, "period_ms": 5})


@dataclass
class Receiving:
    """A receiver that keeps what it is asked to take: (task, state), in order; `answer` may raise."""

    store: Store
    answer: Callable[[str, str], None] = lambda _task, _state: None
    asked: list[tuple[str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def __call__(self, _endpoint: Endpoint, _message: Message, key: str) -> None:
        (message,) = [m for m in self.store.notifications() if m.idempotency_key == key]
        told = str(message.payload["key"]["task_id"]), message.state
        self.asked.append(told)
        self.keys.append(key)
        self.answer(*told)


def courier(store: Store, clock: SetClock, post: Receiving, settings: Receiver | None = None) -> Courier:
    endpoint = endpoint_of("ops", settings or receiver(), "")
    return Courier(store, endpoint, clock, post=post, draw=lambda: 0.0)


def write(
    store: Store, clock: SetClock, *matches: FakeMatch, watermark_ms: int = 0, ops: Receiver | None = None
) -> None:
    """A step."""
    with store.transaction() as writer:
        Recorder(options(ops=ops or receiver()), writer, kept, clock.now_ms()).live(matches, watermark_ms)


def refusing(*told: object, retry_after: str | None = None) -> Callable[[str, str], None]:
    """Not now, for these tasks and states."""

    def answer(task: str, state: str) -> None:
        if task in told or state in told or not told:
            raise TemporaryDeliveryError("answered 503", "server_5xx", retry_after)

    return answer


def statuses(store: Store) -> list[tuple[str, str]]:
    return [(m.state, m.status) for m in store.notifications()]


# ------------------------------------------------------------- who waits for whom


def test_a_message_that_is_never_taken_holds_up_none_of_a_thousand_others(store: Store, clock: SetClock) -> None:
    ops = receiver(send_resolved=False)
    fill_outbox(store, [task("bad"), *(task(f"t{i:03}", i, i + 1) for i in range(1_000))], ops=ops)
    asked: list[str] = []
    names = {m.idempotency_key: str(m.payload["key"]["task_id"]) for m in store.notifications()}

    def post(_endpoint: Endpoint, _message: Message, key: str) -> None:
        asked.append(names[key])
        if names[key] == "bad":
            raise TemporaryDeliveryError("answered 500", "server_5xx")

    told_by = Courier(store, endpoint_of("ops", ops, ""), clock, post=post, draw=lambda: 0.0)
    assert told_by.deliver_pending() == 1_000
    assert asked.count("bad") == 1
    assert sorted(set(asked)) == ["bad", *(f"t{i:03}" for i in range(1_000))]
    assert store.n_notifications_by_status() == {"delivered": 1_000, "pending": 1}
    # Nor those that come while it is tried again.
    clock.advance_to(clock.now_ms() + 1_000)
    write(store, clock, task("late", 5_000, 5_001), ops=ops)
    with store.transaction() as writer:
        assert writer.outbox.n_pending("ops") == 2
    names |= {m.idempotency_key: str(m.payload["key"]["task_id"]) for m in store.notifications("pending")}
    assert told_by.deliver_pending() == 1
    assert sorted(asked[1_001:]) == ["bad", "late"]


def test_a_message_that_meets_a_defect_holds_up_nobody(store: Store, clock: SetClock) -> None:
    def answer(task: str, _state: str) -> None:
        if task == "a":
            raise ZeroDivisionError

    write(store, clock, task("a"), task("b"))
    assert courier(store, clock, Receiving(store, answer)).deliver_pending() == 1
    assert {m.last_error: m.status for m in store.notifications()} == {
        "ZeroDivisionError": "pending",
        None: "delivered",
    }


def test_order_holds_per_alert(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"), task("b"), watermark_ms=100)
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    assert [told for told in post.asked if told[0] == "b"] == [("b", "firing")]
    post.answer = lambda _task, _state: None
    deliver_all(told_by, clock)
    assert sorted(post.asked[2:]) == [("a", "resolved"), ("b", "resolved")]


def test_what_has_not_waited_is_told_in_full(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"), watermark_ms=100)
    post = Receiving(store)
    courier(store, clock, post).deliver_pending()
    assert post.asked == [("a", "firing"), ("a", "resolved")]


# ----------------------------------------------------------------- overtaken states


def test_an_alert_that_ended_while_its_message_waited_is_told_to_be_over(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"))
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    (waiting,) = store.notifications()
    write(store, clock, watermark_ms=100)
    assert statuses(store) == [("firing", "overtaken"), ("resolved", "pending")]
    (_, over) = store.notifications()
    assert over.next_attempt_ms == waiting.next_attempt_ms  # what the receiver was asked does not come sooner
    assert told_by.deliver_pending() == 0
    post.answer = lambda _task, _state: None
    deliver_all(told_by, clock)
    assert post.asked == [("a", "firing"), ("a", "resolved")]
    assert statuses(store) == [("firing", "overtaken"), ("resolved", "delivered")]


def test_an_alert_that_fires_again_while_its_end_waits_is_told_to_fire(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"))
    post = Receiving(store, refusing("resolved"))
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    write(store, clock, watermark_ms=100)
    told_by.deliver_pending()
    write(store, clock, task("a", 2, 3), watermark_ms=100)  # late: it goes on, and is over at once
    write(store, clock, task("a", 200, 210), watermark_ms=150)  # the next one of the same labels
    assert [status for _, status in statuses(store)[:-1]] == ["delivered", *["overtaken"] * (len(statuses(store)) - 2)]
    deliver_all(told_by, clock)
    assert post.asked[-1] == ("a", "firing")
    assert statuses(store)[-1] == ("firing", "delivered")
    assert len(set(post.keys)) == len(set(zip(post.keys, post.asked, strict=True)))


def test_alerts_with_the_same_labels_are_one(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"), task("a", 50, 60))  # two that fire
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    assert statuses(store) == [("firing", "overtaken"), ("firing", "pending")]
    write(store, clock, watermark_ms=40)
    write(store, clock, watermark_ms=100)
    assert [state for state, status in statuses(store) if status == "pending"] == ["resolved"]
    post.answer = lambda _task, _state: None
    deliver_all(told_by, clock)
    assert post.asked == [("a", "firing"), ("a", "resolved")]


@pytest.mark.parametrize("taken", [True, False])
def test_a_message_that_is_overtaken_during_its_attempt(store: Store, clock: SetClock, taken: bool) -> None:
    write(store, clock, task("a"))
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    clock.advance_to(clock.now_ms() + 1_000)

    def meanwhile(_task: str, state: str) -> None:
        if state == "firing":
            write(store, clock, watermark_ms=100)
            if not taken:
                refusing()(_task, state)

    post.answer = meanwhile
    deliver_all(told_by, clock)
    assert post.asked == [("a", "firing"), ("a", "firing"), ("a", "resolved")]
    assert statuses(store) == [("firing", "delivered" if taken else "overtaken"), ("resolved", "delivered")]


@pytest.mark.parametrize("is_over", [False, True])
def test_nobody_is_told_under_a_silence_what_waited_before_it(store: Store, clock: SetClock, is_over: bool) -> None:
    write(store, clock, task("a"))
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    told_by.deliver_pending()
    with store.transaction() as writer:
        hide(Recorder(options(), writer, kept, clock.now_ms()), silencing_of("slow", None, clock.now_ms() + 60_000))
    post.answer = lambda _task, _state: None
    clock.advance_to(clock.now_ms() + 59_000)
    write(store, clock, watermark_ms=100 if is_over else 0)
    assert told_by.deliver_pending() == 0
    assert told_by.wait_ms() is None
    clock.advance_to(clock.now_ms() + 1_000)
    write(store, clock)
    deliver_all(told_by, clock)
    assert post.asked == [("a", "firing"), ("a", "resolved" if is_over else "firing")]
    assert len(set(post.keys)) == 2


def test_nothing_that_was_given_up_is_sent_after_something_later(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"), watermark_ms=100)
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post, receiver(max_attempts=1))
    told_by.deliver_pending()
    assert statuses(store) == [("firing", "failed"), ("resolved", "failed")]
    post.answer, keys = (lambda _task, _state: None), [m.idempotency_key for m in store.notifications()]
    with store.transaction() as writer:
        assert writer.outbox.send_again(keys=keys[:1], now_ms=clock.now_ms(), actor="mia").n_pending == 0
        assert writer.outbox.send_again(now_ms=clock.now_ms(), actor="mia").n_pending == 1
    write(store, clock, task("a", 200, 210), watermark_ms=150)  # it waits to be sent again: it is overtaken
    assert [status for _, status in statuses(store)] == ["failed", "overtaken", "pending"]
    deliver_all(told_by, clock)
    assert post.asked[2:] == [("a", "firing")]


# --------------------------------------------------------------------- until when


def test_a_receiver_that_is_away_for_most_of_a_day_loses_nothing(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"), task("b"))
    back_ms = NOW_MS + DAY_MS - 3_600_000

    def answer(_task: str, _state: str) -> None:
        if clock.now_ms() < back_ms:
            raise TemporaryDeliveryError("ConnectionError", CONNECTION)

    post = Receiving(store, answer)
    waits_ms = deliver_all(courier(store, clock, post), clock)
    assert [status for _, status in statuses(store)] == ["delivered", "delivered"]
    assert clock.now_ms() - back_ms <= 300_000
    assert max(waits_ms) == 300_000
    assert len(post.asked) < 2 * 300
    assert len(set(post.keys)) == 2


def test_a_message_is_given_up_after_a_day_with_a_last_attempt(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"))
    clock.advance_to(NOW_MS + 3 * DAY_MS)  # nobody was there to try it
    post = Receiving(store, refusing())
    waits_ms = deliver_all(courier(store, clock, post), clock)
    assert sum(waits_ms) == DAY_MS
    (given_up,) = store.notifications()
    assert (given_up.status, given_up.n_attempts) == ("failed", len(waits_ms) + 1)
    with store.transaction() as writer:
        assert writer.outbox.send_again(now_ms=clock.now_ms(), actor="mia").n_pending == 1
    deliver_all(courier(store, clock, post), clock)
    assert clock.now_ms() == NOW_MS + 5 * DAY_MS  # once more a day


def test_waits_are_bounded_and_drawn_apart() -> None:
    assert [back_off_ms(n, 1_000, 300_000, 0.0) for n in (1, 2, 3, 9, 10, 10_000)] == [
        *(1_000, 2_000, 4_000, 256_000, 300_000, 300_000),
    ]
    assert back_off_ms(3, 1_000, 300_000, 0.5) == 3_500
    assert back_off_ms(1, 1, 1, 0.99) == 1
    assert back_off_ms(1, 600_000, 300_000, 0.0) == 300_000


def test_a_restart_between_attempts_goes_on_where_it_stood(tmp_path: Path, clock: SetClock) -> None:
    url = f"sqlite:///{tmp_path / 'restarted.db'}"
    told: list[int] = []
    for _ in range(6):
        with open_store(url) as store:
            if not told:
                write(store, clock, task("a"), task("b"))
            post = Receiving(store, refusing("a"))
            told_by = courier(store, clock, post)
            told_by.deliver_pending()
            told_by.deliver_pending()
            assert [name for name, _ in post.asked] == (["a"] if told else ["a", "b"])
            wait_ms = told_by.wait_ms()
            assert wait_ms is not None
            told.append(wait_ms)
        clock.advance_to(clock.now_ms() + wait_ms)
    assert told == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]


def test_a_clock_that_was_set_back_puts_nothing_off(store: Store) -> None:
    later = SetClock(NOW_MS + 3_600_000)
    write(store, later, task("a"), task("b"))
    post = Receiving(store, refusing("a"))
    courier(store, later, post).deliver_pending()
    told_by = courier(store, SetClock(NOW_MS), post)
    assert told_by.wait_ms() == 0
    told_by.deliver_pending()
    assert post.asked.count(("a", "firing")) == 2
    assert told_by.wait_ms() == 2_000


def test_order_holds_though_the_clock_was_set_back(store: Store, clock: SetClock) -> None:
    write(store, SetClock(NOW_MS + 60_000), task("a"))
    write(store, clock, watermark_ms=100)
    post = Receiving(store)
    assert deliver_all(courier(store, clock, post), clock) == [60_000]
    assert post.asked == [("a", "firing"), ("a", "resolved")]


def test_settings_of_before_still_hold() -> None:
    assert (receiver().give_up_after_ms, receiver().max_attempts) == (DAY_MS, None)
    assert receiver(max_attempts=8).max_attempts == 8
    for wrong in ({"give_up_after": 86_400}, {"give_up_after": "31 days"}, {"max_attempts": 0}):
        with pytest.raises(ValueError, match=r"give_up_after|max_attempts"):
            receiver(**wrong)


# -------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("120", 120_000),
        (" 7 ", 7_000),
        ("0", 0),
        ("86400", 300_000),
        ("9" * 5_000, 300_000),
        ("Thu, 01 Jan 1970 00:01:30 GMT", 90_000),
        ("Thursday, 01-Jan-70 00:01:30 GMT", 90_000),
        ("Thu, 01 Jan 1970 00:01:30 -0000", 90_000),
        ("Thu, 31 Dec 2099 23:59:59 GMT", 300_000),
        ("Wed, 31 Dec 1969 23:59:59 GMT", 0),
        *(
            (nonsense, 0)
            for nonsense in (None, "", "-5", "1.5", "+3", "soon", "5 s", "١٢", "Thu, 99 Foo 1970 00:00 GMT")
        ),
        *((nonsense, 0) for nonsense in ("1 2 3 4 5 6", ",", "Thu, 01 Jan 99999 00:00:00 GMT", "x" * 100_000, "\x00")),
    ],
)
def test_what_a_retry_after_asks_for(header: str | None, wait_ms: int) -> None:
    assert retry_after_ms(header, 0, 300_000) == wait_ms


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "wait_ms"), [("120", 120_000), ("999999", 300_000), ("1", 5_000), ("later", 5_000), (None, 5_000)]
)
def test_a_receiver_is_not_asked_again_before_it_wants_to_be(
    store: Store, clock: SetClock, status: int, header: str | None, wait_ms: int
) -> None:
    with webhook(status, retry_after=header) as hook:
        ops = receiver(url=hook.url, first_retry="5 s")
        write(store, clock, task("a"), ops=ops)
        told_by = Courier(store, endpoint_of("ops", ops, ""), clock, draw=lambda: 0.0)
        assert deliver_all(told_by, clock) == [wait_ms]
    assert len(hook.received) == 2


def test_asked_to_wait_by_two_in_a_row_all_wait_but_not_by_one(store: Store, clock: SetClock) -> None:
    ops = receiver(send_resolved=False)
    write(store, clock, *(task(name) for name in "abcde"), ops=ops)
    post = Receiving(store, refusing("b", retry_after="60"))
    told_by = courier(store, clock, post)
    assert told_by.deliver_pending() == 4  # b alone is asked to wait
    post.answer = refusing(retry_after="30")
    clock.advance_to(NOW_MS + 1_000)
    write(store, clock, *(task(name) for name in "vwxyz"), ops=ops)
    post.asked.clear()
    assert told_by.deliver_pending() == 0
    assert [name for name, _ in post.asked] == ["v", "w"]  # it is the receiver that is overrun
    assert told_by.wait_ms() == 30_000
    post.answer = refusing("b")
    clock.advance_to(NOW_MS + 31_000)
    assert told_by.deliver_pending() == 5
    assert [name for name, _ in post.asked[2:]] == ["x", "y", "z", "v", "w"]


# ------------------------------------------------------------ a receiver that is down


def down(store: Store) -> dict[str, int]:
    return store.receivers_down()


def test_a_receiver_that_is_down_is_told_of_at_once_and_when_it_is_back(store: Store, clock: SetClock) -> None:
    write(store, clock, *(task(name) for name in "abc"))
    post = Receiving(store, refusing())
    told_by = courier(store, clock, post)
    with capture_logs() as lines:
        told_by.deliver_pending()
        clock.advance_to(NOW_MS + 60_000)
        told_by.deliver_pending()
    assert len(post.asked) == 6
    assert down(store) == {"ops": NOW_MS}
    (problem,) = store.problems()
    assert (problem.place, problem.kind, problem.n_times) == ("receiver ops", "receiver_down", 1)
    assert problem.message.endswith("answered 503; 3 messages wait")
    assert [line["log_level"] for line in lines if line["event"].startswith("the receiver")] == ["error"]
    assert told_by.down is not None
    assert (told_by.down.since_ms, told_by.down.n_waiting, told_by.down.error) == (NOW_MS, 3, "answered 503")
    assert courier(store, clock, post).down is None  # until its first attempt
    gauges = {m.name: m for m in store_metrics([], StoredFigures({}, store.n_notifications(), down(store)))}
    (since,) = gauges["clustercep_receiver_down_since_timestamp_seconds"].samples
    assert (since.labels, since.value) == ({"receiver": "ops"}, NOW_MS / 1000)
    post.answer = lambda _task, _state: None
    clock.advance_to(NOW_MS + 120_000)
    with capture_logs() as lines:
        told_by.deliver_pending()
    assert down(store) == {}
    assert told_by.down is None
    (problem,) = store.problems()
    assert problem.n_times == 1
    assert "it takes messages again" in problem.message
    assert [line["log_level"] for line in lines if line["event"].startswith("the receiver")] == ["warning"]


def test_the_time_since_which_a_receiver_is_down_outlives_a_restart(store: Store, clock: SetClock) -> None:
    write(store, clock, task("a"))
    post = Receiving(store, refusing())
    courier(store, clock, post).deliver_pending()
    clock.advance_to(NOW_MS + 5_000)
    restarted = courier(store, clock, post)
    restarted.deliver_pending()
    assert restarted.down is not None
    assert restarted.down.since_ms == NOW_MS
    assert [problem.n_times for problem in store.problems()] == [1]


def test_a_message_that_is_not_taken_while_others_are_is_no_receiver_that_is_down(
    store: Store, clock: SetClock
) -> None:
    write(store, clock, task("a"), task("b"))
    told_by = courier(store, clock, Receiving(store, refusing("a")))
    for _ in range(5):
        told_by.deliver_pending()
        assert down(store) == {}
        clock.advance_to(clock.now_ms() + 60_000)
    assert [problem.n_times for problem in store.problems()] == [1]  # the first attempt could have meant anything


def test_what_is_refused_says_nothing_of_the_receiver(store: Store, clock: SetClock) -> None:
    def answer(_task: str, _state: str) -> None:
        raise PermanentDeliveryError("answered 400", "refused_4xx")

    write(store, clock, task("a"))
    courier(store, clock, Receiving(store, answer)).deliver_pending()
    assert down(store) == {}
    assert [problem.kind for problem in store.problems()] == ["undelivered"]


# -------------------------------------------------------------------------- a model


@dataclass
class Believing:
    """A receiver that drops what it has seen, by key, and believes the last it was told, by labels.

    It takes a message, does not, or takes it without anybody hearing of it.
    """

    store: Store
    fates: Iterator[str]
    believes: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, _endpoint: Endpoint, _message: Message, key: str) -> None:
        (message,) = [m for m in self.store.notifications() if m.idempotency_key == key]
        self.asked.append((message.fingerprint, message.sequence))
        fate = next(self.fates)
        if fate in ("taken", "unanswered") and key not in self.seen:
            self.seen.add(key)
            self.believes[message.fingerprint] = message.state
        if fate != "taken":
            raise TemporaryDeliveryError(fate, CONNECTION, "45" if fate == "asks to wait" else None)


FATES = st.sampled_from(["taken", "taken", "lost", "unanswered", "asks to wait"])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 120), st.integers(0, 8)), max_size=3),
        st.integers(0, 40),
        st.integers(0, 4_000),
        st.sampled_from(["deliver", "deliver", "restart", "write only"]),
    ),
    max_size=12,
)


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, fates=st.lists(FATES, max_size=30))
def test_order_per_alert_and_what_is_believed_under_random_failures(
    store: Store, steps: Sequence[tuple[list[tuple[str, int, int]], int, int, str]], fates: list[str]
) -> None:
    with store.transaction() as writer:
        writer.session.query(NotificationRow).delete()
        writer.session.query(AlertRow).delete()
    clock, watermark_ms = SetClock(NOW_MS), 0
    post = Believing(store, chain(fates, repeat("taken")))
    endpoint = replace(endpoint_of("ops", receiver(), ""))
    told_by = Courier(store, endpoint, clock, post=post, draw=lambda: 0.5)
    for spans, passes_ms, later_ms, what in steps:
        watermark_ms += passes_ms
        clock.advance_to(clock.now_ms() + later_ms)
        write(store, clock, *(task(name, start, start + n) for name, start, n in spans), watermark_ms=watermark_ms)
        if what == "restart":
            told_by = Courier(store, endpoint, clock, post=post, draw=lambda: 0.5)
        if what != "write only":
            told_by.deliver_pending()
            if not told_by._pause_ms():
                waiting = store.notifications("pending")
                assert all(m.next_attempt_ms > clock.now_ms() for m in waiting), "due, and not tried"
                assert len({m.fingerprint for m in waiting}) == len(waiting), "older states wait, too"
    deliver_all(told_by, clock)
    written = sorted((m.fingerprint, m.sequence, m.state, m.status) for m in store.notifications())
    for fingerprint, messages in groupby(written, key=lambda m: m[0]):
        *_, (_, last, state, status) = messages
        assert status == "delivered"
        assert post.believes[fingerprint] == state
        asked = [sequence for of, sequence in post.asked if of == fingerprint]
        assert asked == sorted(asked), "an earlier state was told again"
        assert asked[-1] == last
    assert {status for *_, status in written} <= {"delivered", "overtaken"}
