"""Templates in Jinja: what they know, what they may not, and what happens to an alert when one fails."""

from __future__ import annotations

import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.alerting.delivery import Courier, endpoint_of
from app.alerting.receivers.errors import TemplateError
from app.alerting.receivers.news import News
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.errors import ConfigError
from app.settings import Alerting
from app.store import Store
from tests.app.alerting.receivers.test_messages import part
from tests.app.alerting.receivers.told import LINKS, SETTINGS, alert, hostile, news
from tests.app.alerting_fixtures import FakeMatch, kept, options
from tests.app.webhook import webhook


def filled(folder: Path, content: Any, told: News, kind: str = "webhook") -> Any:
    file = folder / "template.json.j2"
    file.write_text(json.dumps(content))
    settings = Alerting.model_validate({"receivers": {"ops": {**SETTINGS[kind], "template": str(file)}}})
    endpoint = endpoint_of("ops", settings.receivers["ops"], LINKS)
    body = endpoint.message(told).body
    return body if kind == "email" else json.loads(body)


def test_names_filters_and_loops(tmp_path: Path) -> None:
    content = {
        "text": "{{ headline }}{% for alert in alerts %} {{ loop.index }}:{{ alert.summary | upper }}{% endfor %}",
        "took": ["{{ alerts[0]['values']['period_ms'] | duration }}", "{{ alerts[0].values.period_ms + 1 }}"],
        "link": "{{ alerts[0].links.runbook }}",
        "n": 5,
        "by host": "{% for host, found in alerts | groupby('severity') %}{{ host }}={{ found | length }}{% endfor %}",
        "units": "{{ 1048576 | size }} {{ 0.25 | percent }} {{ 1234567 | number }} {{ 0 | time }}",
        "more": "{{ alerts | map(attribute='fingerprint') | join(', ') | length }} {{ 'a' ~ 1 ~ 'b' }}",
    }
    assert filled(tmp_path, content, news(alert(1), alert(2))) == {
        "text": "warning: 2 firing: slow 1:T1 TOOK 65 S ON NODE5 2:T2 TOOK 65 S ON NODE5",
        "took": ["1 min 5 s", "65001"],
        "link": "https://wiki/slow",
        "n": 5,
        "by host": "warning=2",
        "units": "1.0 MiB 25 % 1,234,567 1970-01-01 00:00:00 UTC",
        "more": "34 a1b",
    }


def test_values_are_escaped_for_their_target_and_rendered_once(tmp_path: Path) -> None:
    told = news(hostile())
    text = {"text": "{{ alerts[0].summary }} {{ alerts[0].labels.host }}"}
    slack = filled(tmp_path, text, told, "slack")["text"]
    assert "<" not in slack
    assert "&lt;!channel&gt;" in slack
    assert "{{ 7*7 }}" in slack
    assert "\\[x\\]\\(http://evil\\)" in filled(tmp_path, text, told, "teams")["text"]
    assert "<!channel>" in filled(tmp_path, text, told)["text"]
    mail = filled(tmp_path, {**text, "subject": "{{ headline }}\n\nX", "html": "<b>{{ headline }}</b>"}, told, "email")
    import email
    import email.policy

    read: Any = email.message_from_bytes(mail, policy=email.policy.default)
    assert "<script>" in part(read, "plain")
    assert part(read, "html").startswith("<b>TEST".removesuffix("TEST") + "warning: &lt;!channel&gt;")
    assert "\n" not in read["Subject"]


@pytest.mark.parametrize(
    "text",
    [
        "{{ alerts.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 'a'.format(1) }}",
        "{{ headline.upper() }}",
        "{{ range.__globals__ }}",
        "{{ alerts[0].values() }}",
        "{{ self.__init__ }}",
        "{{ missing }}",
        "{{ alerts[0].labels.missing }}",
        "{{ 'a' * 10 }}",
        "{{ 10 ** 10 }}",
        "{{ '%999999999d' % 1 }}",
        "{% for a in range(200) %}{% for b in range(200) %}{% endfor %}{% endfor %}",
        "{{ range(10000000) | list }}",
        "{% for a in range(20000) %}xxxxxxxxxx{% endfor %}",
        "{% set a = 'x' * 1 %}",
        "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 30,
        "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a + a %}" * 30,
        "{{ 1 / 0 }}",
        "{{ alerts | map('missing') | list }}",
        "{{ headline | truncate(2) }}",
    ],
)
def test_what_a_template_may_not_ends_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(TemplateError, match=r"^parts\[1\]\.text: "):
        filled(tmp_path, {"parts": ["", {"text": text}]}, news(alert()))


@pytest.mark.parametrize(
    "text",
    [
        "{{ alerts",
        "{% for %}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{% macro f() %}{% endmacro %}",
        "{% for a in b recursive %}{% endfor %}",
        "{% set a = [headline, headline] %}",
        "{{ {'a': headline} }}",
        "{{ 'x' | replace('x', 'y') }}",
        "{{ 'x' | attr('y') }}",
        "{% set x %}y{% endset %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ 1 is sameas 1 }}",
    ],
)
def test_what_is_no_template_is_told_by_check(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"receivers\.ops\.template: found a\.b(, line 1)?: .*expected Jinja"):
        filled(tmp_path, {"a": {"b": text}}, news(alert()))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"text": "{{ alerts[0].values.missing }}"}', "text: .*missing"),
        ('{"text": "{{ headline | truncate(2) }}"}', "text: expected length >= "),
        ('{"text": "x", "n": NaN}', "JSON"),
    ],
)
def test_an_alert_is_told_without_a_template_that_fails(store: Store, tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "t.j2").write_text(content)
    with webhook() as hook:
        read = Alerting.model_validate({"receivers": {"ops": {"url": hook.url, "template": str(tmp_path / "t.j2")}}})
        with store.transaction() as writer:
            Recorder(options(ops=read.receivers["ops"]), writer, kept, 1_000).live([FakeMatch(1, 2)], 0)
        Courier(store, endpoint_of("ops", read.receivers["ops"], ""), SetClock(5_000)).deliver_pending()
    ((_, body),) = hook.received
    assert body["version"] == "4"
    (problem,) = [problem for problem in store.problems() if problem.kind == "template"]
    assert re.search(told, problem.message)


def test_an_alert_is_told_whatever_the_template_raises(store: Store, tmp_path: Path) -> None:
    class Broken:
        def filled(self, news: News) -> Any:
            raise MemoryError

    with webhook() as hook:
        ops = Alerting.model_validate({"receivers": {"ops": {"url": hook.url}}}).receivers["ops"]
        with store.transaction() as writer:
            Recorder(options(ops=ops), writer, kept, 1_000).live([FakeMatch(1, 2)], 0)
        endpoint = replace(endpoint_of("ops", ops, ""), template=Broken())
        assert Courier(store, endpoint, SetClock(5_000)).deliver_pending() == 1
    assert [(problem.kind, problem.message[-11:]) for problem in store.problems()] == [("template", "MemoryError")]


def test_a_joined_text_is_bounded_while_it_is_made(tmp_path: Path) -> None:
    tracemalloc.start()
    with pytest.raises(TemplateError, match="text: a text of more than 100,000 characters"):
        filled(tmp_path, {"text": "{{ range(20000) | join(headline) }}"}, news(alert(summary="s" * 900)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5_000_000
    labels = {"text": "{{ alerts | join('; ', attribute='labels.host') }} {{ ['a', 'b'] | join }}"}
    assert filled(tmp_path, labels, news(alert(1), alert(2))) == {"text": "node5; node5 ab"}


@pytest.mark.parametrize("kind", ["teams", "pagerduty"])
def test_a_template_that_gives_more_than_a_service_takes_is_left_out(store: Store, tmp_path: Path, kind: str) -> None:
    part = ["{% for n in range(900) %}" + "x" * 100 + "{% endfor %}"] * 8
    (tmp_path / "t.j2").write_text(json.dumps({"text": part, "client": part}))
    with webhook() as hook:
        given = {**SETTINGS[kind], "url": hook.url, "template": str(tmp_path / "t.j2")}
        ops = Alerting.model_validate({"receivers": {"ops": given}}).receivers["ops"]
        with store.transaction() as writer:
            Recorder(options(ops=ops), writer, kept, 1_000).live([FakeMatch(1, 2)], 0)
        Courier(store, endpoint_of("ops", ops, ""), SetClock(5_000)).deliver_pending()
    ((_, body),) = hook.received
    assert len(json.dumps(body)) < 28_000
    (problem,) = store.problems()
    assert (problem.kind, "a message of " in problem.message) == ("template", True)


def test_plain_templates_keep_working_and_escape_too(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text('{"text": "{severity}: {summary} {{ 7*7 }}"}')
    for kind, expected in (("webhook", "<!channel>"), ("slack", "&lt;!channel&gt;")):
        settings = Alerting.model_validate({"receivers": {"ops": {**SETTINGS[kind], "template": str(file)}}})
        endpoint = endpoint_of("ops", settings.receivers["ops"], LINKS)
        assert expected in json.loads(endpoint.message(news(hostile())).body)["text"]
    file.write_text('{"text": "{what} {n}"}')
    endpoint = endpoint_of("ops", settings.receivers["ops"], LINKS)
    listed = news(alert(values={"what": ["<!channel>"], "n": 5}))
    assert json.loads(endpoint.message(listed).body)["text"] == "['&lt;!channel&gt;'] 5"
    file.write_text("[1]")
    with pytest.raises(ConfigError, match="expected an object"):
        endpoint_of("ops", settings.receivers["ops"], LINKS)
