"""The rules by which messages of groups are judged: each is broken once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.torture.receivers.told_groups import Member, Told, keys_of, wrong_messages

A, B = ("a", "firing"), ("b", "firing")
A_OVER, B_OVER = ("a", "resolved"), ("b", "resolved")


def told(key: str, *alerts: Member, group: str = "g") -> Told:
    return Told(key, group, "first notification", frozenset(alerts))


def wrong(messages: Sequence[Told], *superseded: Told, alone: str = "") -> list[str]:
    of = {message.key: message.alerts for message in superseded}
    return list(
        wrong_messages("ops", messages, {"a": "alert a", "b": "alert b"}, of, lambda alert_id: alert_id in alone)
    )


def test_a_group_that_grows_and_ends_keeps_all_rules() -> None:
    assert wrong([told("1", A), told("1", A), told("2", A, B), told("3", A_OVER, B), told("4", B_OVER)]) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([told("1", A), told("1", A, B)], "ops: key 1 stands for several messages"),
        ([told("1", A), told("2", A)], "ops: g is told the same again as 'first notification', key 2"),
        ([told("1", A), told("2", A_OVER), told("3", A, B)], "ops: alert a fires after its end"),
        ([told("1", A), told("2", B_OVER)], "ops: alert b is over, and was never told to fire"),
    ],
)
def test_a_rule_that_is_broken_is_named(messages: list[Told], expected: str) -> None:
    assert wrong(messages) == [expected]


def test_an_alert_that_is_alone_has_one_key_unless_its_message_was_superseded() -> None:
    messages = [told("1", A), told("2", A, A_OVER)]
    assert wrong(messages, alone="a") == ["ops: alert a firing under 2 keys"]
    assert wrong(messages, told("1", A), alone="a") == []
    assert wrong(messages) == []


def test_what_a_superseded_message_told_may_end_without_having_begun() -> None:
    assert wrong([told("2", A_OVER)], told("1", A)) == []


def test_keys_of() -> None:
    assert keys_of([told("1", A), told("2", A, B)]) == {A: {"1", "2"}, B: {"2"}}
