"""Time intervals, by what the calendar says."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.alerting.dispatch.intervals import interval_section, parse_interval


def at(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("section", "inside", "outside"),
    [
        ({}, ["2027-01-01T00:00"], []),
        (
            {"times": [{"start_time": "09:00", "end_time": "17:00"}]},
            ["2027-03-01T09:00", "2027-03-01T16:59:59"],
            ["2027-03-01T08:59:59", "2027-03-01T17:00"],
        ),
        ({"times": [{"start_time": "22:00", "end_time": "24:00"}]}, ["2027-03-01T23:59:59"], ["2027-03-01T21:59"]),
        (
            {"weekdays": ["monday:friday"]},
            ["2027-03-01T12:00", "2027-03-05T12:00"],
            ["2027-03-06T12:00", "2027-03-07T12:00"],
        ),
        (
            {"weekdays": ["friday:monday"]},
            ["2027-03-05T12:00", "2027-03-06T12:00", "2027-03-07T12:00", "2027-03-08T12:00"],
            ["2027-03-04T12:00", "2027-03-09T12:00"],
        ),
        ({"weekdays": ["Saturday", "sunday"]}, ["2027-03-06T12:00", "2027-03-07T12:00"], ["2027-03-08T12:00"]),
        (
            {"days_of_month": ["1:2", "-1"]},
            ["2027-02-28T12:00", "2027-03-01T12:00"],
            ["2027-03-28T12:00", "2027-03-03T12:00"],
        ),
        (
            {"days_of_month": ["-3:-1"]},
            ["2028-02-27T12:00", "2028-02-29T12:00"],
            ["2028-02-26T12:00", "2027-03-27T12:00"],
        ),
        ({"days_of_month": ["31"]}, ["2027-03-31T12:00"], ["2027-02-28T12:00", "2027-04-30T12:00"]),
        ({"days_of_month": ["29:31"]}, ["2027-04-30T12:00"], ["2027-02-28T12:00"]),
        ({"days_of_month": ["1:-1"]}, ["2027-04-30T12:00", "2027-04-01T12:00"], []),
        ({"months": ["january:march", "12"]}, ["2027-01-01T12:00", "2027-12-31T12:00"], ["2027-04-01T12:00"]),
        ({"years": ["2027:2028", "2030"]}, ["2028-01-01T12:00", "2030-06-01T12:00"], ["2029-01-01T12:00"]),
        ({"weekdays": ["monday"], "months": ["march"]}, ["2027-03-01T12:00"], ["2027-03-02T12:00", "2027-04-05T12:00"]),
    ],
)
def test_ranges(section: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    interval = parse_interval(section)
    assert [text for text in inside if not interval.holds(at(text))] == []
    assert [text for text in outside if interval.holds(at(text))] == []


def test_a_place_has_its_own_midnight_and_summer() -> None:
    nights = parse_interval({"times": [{"start_time": "00:00", "end_time": "06:00"}], "location": "Europe/Berlin"})
    assert nights.holds(at("2027-01-31T23:30"))  # 00:30 there
    assert nights.holds(at("2027-07-01T22:30"))
    assert not nights.holds(at("2027-07-01T04:30"))
    assert not nights.holds(at("2027-01-31T05:30"))


def test_days_over_the_week_s_end_are_written_as_older_alertmanagers_read_them() -> None:
    assert interval_section(parse_interval({"weekdays": ["friday:monday", "wednesday"]})) == {
        "weekdays": ["friday:saturday", "sunday:monday", "wednesday:wednesday"],
    }


def test_a_time_without_quotes_is_what_was_meant() -> None:
    assert parse_interval({"times": [{"start_time": 600, "end_time": 720}]}).times == ((600, 720),)


@pytest.mark.parametrize(
    "section",
    [
        {"weekday": ["monday"]},
        {"weekdays": "monday"},
        {"weekdays": ["mon"]},
        {"months": ["13"]},
        {"days_of_month": ["0"]},
        {"days_of_month": ["5:1"]},
        {"days_of_month": ["-1:5"]},
        {"days_of_month": ["32"]},
        {"times": [{"start_time": "22:00", "end_time": "06:00"}]},
        {"times": [{"start_time": "9:00", "end_time": "10:00"}]},
        {"times": ["09:00"]},
        {"years": ["2028:2027"]},
        {"location": "Mars/Base"},
        {"location": "../etc/passwd"},
    ],
)
def test_what_is_no_interval_is_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected"):
        parse_interval(section)
