"""Ganglia's XML: recorded answers, ages, units, and what is none of it."""

from __future__ import annotations

import re

import pytest

from collectors.ganglia import gmond_xml
from collectors.ganglia.gmond_xml import GangliaAnswer, GmondXmlError, is_expired, normal_unit, parse_answer
from collectors.network.deadlines import within
from tests.collectors.ganglia.reports import HEAD, METRICS, answer, host, metric, recorded


def told(parsed: GangliaAnswer) -> dict[tuple[str, str], tuple[float, str | None, int]]:
    return {
        (of.name, name): (found.value, found.unit, found.age_s)
        for of in parsed.hosts
        for name, found in of.metrics.items()
    }


@pytest.mark.parametrize("name", ["gmond-1", "gmond-2", "gmetad"])
def test_recorded_answers_are_read_as_another_reading_of_their_lines_has_them(name: str) -> None:
    body = recorded(name)
    expected, of, n_all = {}, "", 0
    for line in body.decode("latin-1").splitlines():
        if line.startswith("<HOST "):
            of = re.findall('NAME="([^"]*)"', line)[0]
        if line.startswith("<METRIC "):
            n_all += 1
            fields = dict(re.findall('([A-Z]+)="([^"]*)"', line))
            if fields["NAME"] in METRICS:
                expected[of, fields["NAME"]] = (
                    float(fields["VAL"]),
                    fields["UNITS"].strip() or None,
                    int(fields["TN"]),
                )
    parsed = parse_answer(body, METRICS)
    assert told(parsed) == expected
    assert len(expected) == 8
    assert parsed.n_others == n_all - 8
    assert (parsed.fault, parsed.odd, parsed.n_expired) == (None, {}, 0)
    assert parsed.is_of_gmetad is (name == "gmetad")
    assert [(of.cluster, of.name, of.address, of.limit_s, of.is_silent) for of in parsed.hosts] == [
        ("mini", "localhost", "127.0.0.1", 20, False), ("mini", "node-2", "10.0.0.2", 20, False),
    ]  # fmt: skip


def test_what_is_too_old_says_nothing() -> None:
    assert [is_expired(age_s, 90, 0) for age_s in (360, 361)] == [False, True]
    assert [is_expired(age_s, 0, 60) for age_s in (60, 61)] == [False, True]
    assert not is_expired(10**9, 0, 0)
    parsed = parse_answer(answer(host("a", metric("load_one", 1, 361), metric("cpu_user", 2, 360), age_s=80)), METRICS)
    assert told(parsed) == {("a", "cpu_user"): (2.0, "%", 360)}
    assert (parsed.n_expired, parsed.hosts[0].is_silent) == (1, False)
    assert parse_answer(answer(host("a", age_s=81)), METRICS).hosts[0].is_silent


def test_units_are_the_normal_ones_or_the_sample_is_left_out() -> None:
    assert [normal_unit("cpu_user", unit) for unit in ("%", " ", "Percent")] == ["%"] * 3
    assert [normal_unit("load_one", " "), normal_unit("queue", "jobs"), normal_unit("mem_free", "kb")] == [
        None,
        "jobs",
        "KB",
    ]
    parsed = parse_answer(answer(host("a", metric("mem_free", 1, unit="GB"), metric("load_one", 2))), METRICS)
    assert told(parsed) == {("a", "load_one"): (2.0, None, 0)}
    assert parsed.odd == {"other_unit": "a: mem_free: its unit is 'GB'; expected 'KB'"}


@pytest.mark.parametrize("value", ["", "x", "nan", "inf", "-1e999", "1" * 65, "0x10"])
def test_what_is_no_number_is_left_out_and_told(value: str) -> None:
    parsed = parse_answer(answer(host("a", metric("load_one", value), metric("cpu_user", 2))), METRICS)
    assert list(told(parsed)) == [("a", "cpu_user")]
    assert "a: load_one is" in parsed.odd["not_number"]


@pytest.mark.parametrize("age", ["-5", "", "1.5", "x", "99999999999", "\u0661"])
def test_an_age_that_is_none_is_told(age: str) -> None:
    parsed = parse_answer(answer(host("a", metric("load_one", 1, age), metric("cpu_user", 2))), METRICS)
    assert list(told(parsed)) == [("a", "cpu_user")]
    assert "expected seconds" in parsed.odd["bad_age"]


def test_of_an_answer_that_is_cut_what_stands_before_is_read() -> None:
    body = recorded("gmond-1")
    whole = told(parse_answer(body, METRICS))
    started = body.index(b"<GANGLIA_XML") + len(b'<GANGLIA_XML VERSION="3.7.2" SOURCE="gmond">')
    for end in range(started, len(body) - len(b"</GANGLIA_XML>\n"), 97):
        cut = parse_answer(body[:end], METRICS)
        found = told(cut)
        assert cut.fault
        assert found == dict(list(whole.items())[: len(found)])
    with pytest.raises(GmondXmlError, match="expected GANGLIA_XML"):
        parse_answer(body[: started - 60], METRICS)


TAGS = b"<GANGLIA_XML SOURCE='gmond'>"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "not_ganglia"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not_ganglia"),
        (b"<html><body/></html>", "not_ganglia"),
        (b"\x00\xff" * 1000, "not_ganglia"),
        (b"<?xml version='1.0' encoding='nowhere'?><GANGLIA_XML/>", "not_ganglia"),
        (b"<!DOCTYPE G [<!ENTITY a 'b'><!ENTITY b '&a;&a;'>]><GANGLIA_XML/>", "not_ganglia"),
        (b"<!DOCTYPE G [<!ENTITY % a SYSTEM 'file:///etc/passwd'> %a;]><GANGLIA_XML/>", "not_ganglia"),
        (b"<!DOCTYPE G [<!ATTLIST H a CDATA '" + b"x" * 65 + b"'>]><GANGLIA_XML/>", "not_ganglia"),
        (b"<!DOCTYPE G [" + b"<!ATTLIST H a%d CDATA 'x'>" * 17 % tuple(range(17)) + b"]><GANGLIA_XML/>", "not_ganglia"),
        (b"<!DOCTYPE G [" + b"<!ATTLIST H a CDATA #IMPLIED>" * 1001 + b"]><GANGLIA_XML/>", "not_ganglia"),
        (TAGS + b"<GRID>" * 40, "too_large"),
        (TAGS + b"<HOST " + b"".join(b"a%d='' " % n for n in range(40_000)) + b"/>", "too_large"),
        (TAGS + b"<HOST NAME='" + b"x" * 300_000 + b"'/>", "too_large"),
    ],
)  # fmt: skip
def test_what_is_none_of_ganglias_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(GmondXmlError) as refused:
        parse_answer(body, METRICS)
    assert refused.value.kind == kind


def test_hosts_samples_and_elements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    body = answer(host("a", metric("load_one", 1), metric("cpu_user", 1)), host("b", metric("load_one", 1)))
    assert len(told(parse_answer(body, METRICS))) == 3
    for name, most in (("MAX_HOSTS", 1), ("MAX_CHOSEN", 2), ("MAX_ELEMENTS", 12)):
        with monkeypatch.context() as patched:
            patched.setattr(gmond_xml, name, most)
            with pytest.raises(GmondXmlError, match="more than"):
                parse_answer(body, METRICS)
    with within(0.0), pytest.raises(GmondXmlError, match="longer to read"):
        parse_answer(body, METRICS)


def test_names_cannot_steer_a_terminal_and_hosts_without_one_are_told() -> None:
    text = HEAD + '<GANGLIA_XML SOURCE="gmond"><HOST NAME="" TN="0"/><HOST NAME="a&#x9;&#x85;b" TN="-3">'
    parsed = parse_answer(f"{text}{metric('load_one', 1)}</HOST></GANGLIA_XML>".encode("latin-1"), METRICS)
    assert [(of.cluster, of.name, of.age_s) for of in parsed.hosts] == [("unspecified", r"a\t\x85b", None)]
    assert set(parsed.odd) == {"no_name", "bad_age"}
