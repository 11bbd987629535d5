"""What each service is sent: golden payloads, its limits, and hostile texts that stay texts."""

from __future__ import annotations

import email
import email.header
import email.policy
import json
import re
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from app.alerting.links import runbook_of
from app.alerting.receivers.kinds import BUILDERS
from app.alerting.receivers.news import News
from app.alerting.receivers.settings import BY_KIND
from app.alerting.receivers.teams import MAX_BYTES as TEAMS_BYTES
from app.alerting.receivers.template_values import values_of_news
from tests.app.alerting.receivers.told import HOSTILE, LINKS, SETTINGS, alert, hostile, news, service

GOLDEN = Path(__file__).parent / "golden"
OVER: dict[str, Any] = {"state": "resolved", "revision": 2}
TOLD = {
    "firing": news(alert()),
    "resolved": news(alert(**OVER)),
    "group": news(alert(1, severity="critical"), alert(2, **OVER), n_left_out=3),
}
JSON_KINDS = [kind for kind in BUILDERS if kind not in ("email", "apprise")]


def sent(kind: str, told: News, **settings: Any) -> Any:
    return json.loads(service(kind, **settings).message(told, None).body)


def mail(told: News, own: Any = None) -> EmailMessage:
    body = service("email").message(told, own).body
    read = email.message_from_bytes(body, policy=email.policy.default)
    assert isinstance(read, EmailMessage)
    return read


def part(message: EmailMessage, kind: str) -> str:
    found = message.get_body((kind,))
    assert found is not None
    return str(found.get_content())


@pytest.mark.parametrize("kind", JSON_KINDS)
@pytest.mark.parametrize("name", TOLD)
def test_golden(kind: str, name: str) -> None:
    message = service(kind).message(TOLD[name], None)
    golden = json.loads((GOLDEN / f"{kind}-{name}.json").read_text(encoding="utf-8"))
    assert {"url": message.url, "body": json.loads(message.body)} == golden


def fields_of(content: Any) -> Any:
    """Which there are, at every level, whatever the alert's labels and annotations are."""
    if isinstance(content, list):
        return fields_of(content[0])
    if not isinstance(content, dict):
        return type(content).__name__
    open_ended = {"labels", "annotations", "groupLabels", "commonLabels", "commonAnnotations", "routeLabels"}
    return {name: "" if name in open_ended else fields_of(value) for name, value in content.items()}


@pytest.mark.parametrize("state", [{}, OVER], ids=["firing", "resolved"])
def test_a_webhook_has_the_same_fields_with_a_route_and_without(state: dict[str, Any]) -> None:
    alone, grouped = (news(alert(**state), group=group) for group in (False, True))
    assert fields_of(sent("webhook", alone)) == fields_of(sent("webhook", grouped))
    assert alone.fields().keys() == grouped.fields().keys()
    assert values_of_news(alone).keys() == values_of_news(grouped).keys()


def test_templates_know_why_an_alert_is_told_without_a_route() -> None:
    told = [news(alert()), news(alert(**OVER))]
    assert [one.fields()["reason"] for one in told] == ["first notification", "all alerts resolved"]
    assert [values_of_news(one)["reason"] for one in told] == ["first notification", "all alerts resolved"]
    assert values_of_news(told[0])["group_labels"] == {"alertname": "slow", "task_id": "t1"}


@pytest.mark.parametrize("n_alerts", [1, 2])
@pytest.mark.parametrize("group", [False, True])
def test_a_value_of_the_alerts_keeps_its_name_in_templates_with_a_route_and_without(n_alerts: int, group: bool) -> None:
    valued = [alert(n, values={"reason": "beyond its memory"}) for n in range(n_alerts)]
    found = news(*valued, group=group).fields()
    assert (found["reason"], found["notification_reason"]) == ("beyond its memory", "first notification")


def test_what_alerts_of_a_group_do_not_share_is_said_of_the_message() -> None:
    found = news(*(alert(n, values={"reason": f"for {n}"}) for n in (1, 2))).fields()
    assert found["reason"] == found["notification_reason"] == "first notification"


@pytest.mark.parametrize("name", TOLD)
def test_golden_mail(name: str) -> None:
    message = mail(TOLD[name])
    golden = json.loads((GOLDEN / f"email-{name}.json").read_text(encoding="utf-8"))
    headers = {key: str(value) for key, value in message.items() if key != "Content-Type"}
    assert {"headers": headers, "text": part(message, "plain"), "html": part(message, "html")} == golden


def test_every_kind_has_settings_a_builder_and_a_test() -> None:
    assert BUILDERS.keys() == BY_KIND.keys() == SETTINGS.keys()


def strings(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [text for item in parts for text in strings(item)]


@pytest.mark.parametrize("told", [news(hostile()), news(hostile(1), hostile(2), n_left_out=1)], ids=["one", "group"])
class TestHostile:
    def test_slack_mentions_nobody_and_links_nowhere(self, told: News) -> None:
        body = sent("slack", told)
        shown = [text for text in strings(body) if not text.startswith("http://dash")]
        assert not [text for text in shown if re.search(r"<|>", text)]
        assert any("&lt;!channel&gt;" in text for text in shown)
        assert all(attachment["mrkdwn_in"] == [] for attachment in body["attachments"])

    def test_teams_shows_it_in_runs_of_plain_text(self, told: News) -> None:
        (attachment,) = sent("teams", told)["attachments"]
        assert {block["type"] for block in attachment["content"]["body"]} == {"RichTextBlock"}
        assert {run["type"] for block in attachment["content"]["body"] for run in block["inlines"]} == {"TextRun"}

    def test_headers_of_mails_are_those_that_we_write(self, told: News) -> None:
        message = mail(told)
        assert message["Bcc"] is None
        assert [name for name in message.keys() if name not in  # noqa: SIM118
                ("Subject", "From", "To", "Date", "Message-ID", "References", "In-Reply-To", "Auto-Submitted",
                 "Idempotency-Key", "MIME-Version", "Content-Type")] == []  # fmt: skip
        assert message["To"] == "ops@example.org"
        assert "\n" not in message["Subject"]

    def test_mails_have_no_markup_of_others(self, told: News) -> None:
        markup = part(mail(told), "html")
        assert "<script" not in markup
        assert "&lt;script&gt;" in markup
        assert set(re.findall(r'href="([^"]*)"', markup)) <= {
            *(told.links.alert(a) for a in told.alerts), told.url, "https://wiki/slow",
            *(url.replace("&", "&amp;") for a in told.alerts for url in told.links.others(a).values()),
        }  # fmt: skip

    def test_nobody_gets_control_characters(self, told: News) -> None:
        for kind in JSON_KINDS:
            texts = strings(sent(kind, told))
            assert not [text for text in texts if re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)], kind

    def test_nothing_is_filled_in_twice(self, told: News) -> None:
        for kind in JSON_KINDS:
            body = json.dumps(sent(kind, told))
            assert "{{ 7*7 }}" in body
            assert "49" not in [word for text in strings(json.loads(body)) for word in text.split()], kind


WORDS = [
    "=?utf-8?q?a=0D=0ABcc:_evil=40example.org?=",
    "=?utf-8?q?a=0ABcc:_evil=40example.org?=",
    "=?us-ascii?q?a=0D=0A=0D=0A<h1>body</h1>?= x",
    "x =?utf-8?b?DQpCY2M6IGV2aWxAZXhhbXBsZS5vcmcNCg==?= y",
    "=?unicode_escape?q?=5Cu000d=5Cu000aBcc:_e?=",
    "=?raw_unicode_escape?q?=5Cud800?=",
    "=?utf-7?q?+2AA-?=",
    "=?utf-8?q?=00?=",
    "é" * 150 + " =?utf-8?q?=0D=0ABcc:_e?=",
    "a  " * 60,
]


@pytest.mark.parametrize("text", WORDS)
@pytest.mark.parametrize("own", [False, True])
def test_encoded_words_of_alerts_are_never_decoded_in_headers(text: str, own: bool) -> None:
    told = news(alert(summary=text))
    message = service("email").message(told, {"subject": f"X: {text}"} if own else None)
    head = message.body.partition(b"\r\n\r\n")[0]
    assert not re.search(rb"(?m)^Bcc|\0|\n[ \t]*\r|(?<!\r)\n|\r(?!\n)", head)
    assert head.count(b"Content-Type: multipart/alternative") == 1
    encoded = email.message_from_bytes(message.body, policy=email.policy.compat32)["Subject"]
    (word, *more) = email.header.decode_header(encoded)
    assert not more
    subject = word[0].decode("utf-8") if isinstance(word[0], bytes) else word[0]
    assert subject == f"{'X' if own else 'warning'}: {text}".strip()


def test_a_header_that_is_several_is_refused() -> None:
    with pytest.raises(ValueError, match="header"):
        service("email").message(replace(TOLD["firing"], idempotency_key="=?utf-8?q?a=0D=0ABcc:_x?="), None)


def test_an_id_of_another_form_leads_nowhere_and_values_are_quoted_in_links() -> None:
    links = news(hostile()).links.others(hostile())
    assert "resource_manager" not in links
    assert links["grafana"].startswith("https://g/d/h?var-host=%3C%21channel%3E%20%3Cscript%3E")
    assert news(alert()).links.others(alert())["resource_manager"].endswith("/application_1700000000000_0001")


def test_commands_of_the_runbook_take_values_as_one_word() -> None:
    body = sent("opsgenie", news(hostile(labels={**(alert().labels or {}), "host": "$(reboot) 'x'"})))
    assert "then at '$(reboot) '\"'\"'x'\"'\"''." in body["description"]
    assert "yarn logs -applicationId application_1700000000000_0001" in body["description"]


@pytest.mark.parametrize(
    ("runbook", "is_filled"),
    [
        ("ls {job} -l", True),
        ("It's slow.\n\nls {job}", True),
        ("It's slow:\n```\nls {job}\n```", True),
        ("ls '{job}'", False),
        ('ls "{job}"', False),
        ("ls 'a b {job}'", False),
        ("""echo '"'" {job}\"""", False),
        ("Don't run `ls 'a {job}'`", False),
        ("awk '\n{job}\n'", False),
        ("```\nawk '\n\n{job}\n'\n```", False),
        ("ls \\{job}", False),
        ("cat <<END\n{job}\nEND", False),
        ("ssh {host} ls {job}", False),
    ],
)
def test_a_value_is_quoted_where_quotes_hold_and_nowhere_else(runbook: str, is_filled: bool) -> None:
    labels = {**(alert().labels or {}), "job": "x; touch /tmp/pwned; $(id)"}
    told = runbook_of(alert(runbook=runbook, labels=labels))
    host = runbook.replace("{host}", "node5")
    assert told == (host.replace("{job}", "'x; touch /tmp/pwned; $(id)'") if is_filled else host)
    assert runbook_of(alert(runbook=runbook)) == host.replace("{job}", "job_1700000000000_0001")


def test_limits_are_kept() -> None:
    long = "ä<" * 20_000
    values = {f"v{i}": "x" * 5_000 for i in range(2_000)}
    huge = alert(
        summary=long, runbook=long, values=values, labels={**(alert().labels or {}), "job": long, "host": long}
    )
    for told in (news(huge), news(*(alert(i, summary=long) for i in range(1, 900)), n_left_out=100)):
        (slack,) = sent("slack", told)["attachments"]
        assert len(slack["title"]) <= 1024
        assert len(slack["text"]) <= 3_000
        assert not re.search(r"&(?!amp;|lt;|gt;)", slack["title"] + slack["text"])
        assert len(service("teams").message(told, None).body) <= TEAMS_BYTES
        pager = service("pagerduty").message(told, None).body
        assert len(pager) <= 512_000
        assert len(json.loads(pager)["payload"]["summary"]) <= 1_024
        genie = sent("opsgenie", told)
        assert len(genie["message"]) <= 130
        assert len(genie["description"]) <= 15_000
        assert len(genie["entity"]) <= 512
        assert sum(len(n) + len(v) for n, v in genie["details"].items()) <= 8_000
        assert len(mail(told)["Subject"]) <= 200
    assert (
        '"truncated"'
        in service("pagerduty").message(news(*(alert(i, summary="x" * 900) for i in range(900))), None).body.decode()
    )


def test_firing_and_resolved_have_one_key() -> None:
    firing, resolved = sent("pagerduty", TOLD["firing"]), sent("pagerduty", TOLD["resolved"])
    assert firing["dedup_key"] == resolved["dedup_key"]
    assert set(resolved) == {"routing_key", "event_action", "dedup_key"}
    closing = service("opsgenie").message(TOLD["resolved"], None)
    assert closing.url == f"http://127.0.0.1:9/v2/alerts/{'f' * 16}/close?identifierType=alias"
    assert mail(TOLD["firing"])["References"] == mail(TOLD["resolved"])["References"]


def test_parts_of_a_template_take_the_place_of_ours_but_not_of_keys() -> None:
    own = {"routing_key": "other", "dedup_key": "x", "client": "me", "payload": {"component": "c"}}
    body = json.loads(service("pagerduty").message(TOLD["firing"], own).body)
    assert (body["routing_key"], body["dedup_key"], body["client"]) == ("R0123456789", "f" * 16, "me")
    assert (body["payload"]["component"], body["payload"]["summary"]) == ("c", "warning: t1 took 65 s on node5")
    assert json.loads(service("slack").message(TOLD["firing"], {"text": "hi", "attachments": []}).body) == {
        "channel": "#ops", "text": "hi", "attachments": [],
    }  # fmt: skip
    message = mail(TOLD["firing"], {"subject": "a\r\nBcc: x@y.z", "text": ["one", "two"]})
    assert (message["Subject"], message["Bcc"]) == ("a  Bcc: x@y.z", None)
    assert message.get_content().splitlines() == ["one", "two"]


def test_an_alertmanager_is_told_when_what_fires_is_over_unless_it_is_told_again() -> None:
    (pushed,) = sent("alertmanager", TOLD["firing"], resend_delay="30 s")
    assert pushed["endsAt"] == "2023-11-14T22:25:20.000Z"
    assert sent("alertmanager", TOLD["resolved"])[0]["endsAt"] == "2023-11-14T22:14:20.000Z"
    assert service("alertmanager", url="http://am/x/").message(TOLD["firing"], None).url == "http://am/x/api/v2/alerts"


def test_hostile_is_hostile() -> None:
    assert "\r\n" in HOSTILE


def test_values_that_would_be_options_or_other_folders_are_left_out() -> None:
    labels = {**(alert().labels or {}), "host": "-rf"}
    assert "then at {host}." in sent("opsgenie", news(alert(labels=labels)))["description"]
    assert "grafana" not in LINKS.others(alert(labels={**labels, "host": ".."}))


def test_what_is_compatible_with_slack_finds_no_mentions_and_no_links() -> None:
    hostile_text = "@all is ![slow](http://evil/t.png)"
    labels = {**(alert().labels or {}), "job": hostile_text}
    for told in (news(alert(summary=hostile_text, labels=labels)), news(alert(1, summary=hostile_text), alert(2))):
        texts = strings(sent("slack", told))
        assert not [text for text in texts if re.search(r"@all|\]\(", text)]
        assert any("@\u200ball is" in text for text in texts)


def test_apprise_finds_no_mentions_in_names() -> None:
    told = json.loads(service("apprise").message(news(alert(summary="@everyone <@123> <!channel>")), None).body)
    assert not re.search(r"@everyone|<@|<!", told["title"] + told["body"])
