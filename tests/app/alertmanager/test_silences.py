"""Silences over the API: made, changed, ended, listed; what may not be one; who did it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting import operations
from app.alerting.dispatch.matchers import parse_matchers
from app.alerting.people import ForbiddenError, Person, Role
from app.alerting.silencing import silencing
from app.alertmanager.silences import number_of, silence_uuid
from app.store.models import SilenceChangeRow
from tests.app.alertmanager.served import NOW_MS, Served, fire, slow

HOUR_MS = 3_600_000


def iso(time_ms: int) -> str:
    from app.alerting.text import iso as written

    return written(time_ms)


def body(**given: Any) -> dict[str, Any]:
    return {
        "matchers": [{"name": "host", "value": "n1", "isRegex": False, "isEqual": True}],
        "startsAt": iso(NOW_MS),
        "endsAt": iso(NOW_MS + HOUR_MS),
        "createdBy": "somebody <b>",
        "comment": "new disks",
        **given,
    }


def changes(api: Served, number: int) -> list[tuple[str, str]]:
    with api.store._reading() as session:
        rows = session.query(SilenceChangeRow).filter_by(silence_id=number).order_by(SilenceChangeRow.revision)
        return [(row.actor, row.what) for row in rows]


def test_a_silence_is_made_read_changed_and_ended(api: Served) -> None:
    fire(api.store, slow("t1", "n1"))
    made = api.write("POST", "/api/v2/silences", body())
    assert made.status == 200
    silence_id = made.json["silenceID"]
    shown = api.get(f"/api/v2/silence/{silence_id}").json
    assert shown == {
        "id": silence_id,
        "status": {"state": "active"},
        "updatedAt": iso(NOW_MS),
        "comment": "new disks",
        "createdBy": "somebody <b>",
        "endsAt": iso(NOW_MS + HOUR_MS),
        "matchers": [{"name": "host", "value": "n1", "isRegex": False, "isEqual": True}],
        "startsAt": iso(NOW_MS),
        "annotations": {},
    }
    assert api.get("/api/v2/silences").json == [shown]
    assert api.store.alerts()[0].silenced

    api.clock.advance_to(NOW_MS + 1_000)
    wanted = body(id=silence_id, comment="newer", startsAt=iso(NOW_MS - 5_000), endsAt=iso(NOW_MS + 2 * HOUR_MS))
    wanted["matchers"] = [
        {"name": "host", "value": "n[0-9]", "isRegex": True, "isEqual": True},
        {"name": "task_id", "value": "t9", "isRegex": False, "isEqual": False},
    ]
    assert api.write("POST", "/api/v2/silences", wanted).json == {"silenceID": silence_id}
    shown = api.get(f"/api/v2/silence/{silence_id}").json
    assert (shown["comment"], shown["startsAt"], shown["updatedAt"]) == ("newer", iso(NOW_MS), iso(NOW_MS + 1_000))
    assert shown["matchers"] == wanted["matchers"]

    api.clock.advance_to(NOW_MS + 2_000)
    assert api.write("DELETE", f"/api/v2/silence/{silence_id}").status == 200
    assert api.write("DELETE", f"/api/v2/silence/{silence_id}").status == 200
    assert api.get(f"/api/v2/silence/{silence_id}").json["status"] == {"state": "expired"}
    number = number_of(silence_id)
    assert number is not None
    done = changes(api, number)
    assert [actor for actor, _ in done] == ["mia", "mia", "mia"]  # and not who is said to have made it
    assert done[1][1].startswith('changed: matchers was {host="n1"}')
    assert done[2][1] == "ended"


def test_annotations_are_kept_and_told_again(api: Served) -> None:
    """A change says all of a silence, as in Alertmanager: without annotations it has none."""
    given_ = {"ticket": "OPS-7", "<b>": "${jndi} \n\x00", "": ""}
    silence_id = api.write("POST", "/api/v2/silences", body(annotations=given_)).json["silenceID"]
    kept = {"": "", "<b>": "${jndi} \n\\x00", "ticket": "OPS-7"}
    assert api.get(f"/api/v2/silence/{silence_id}").json["annotations"] == kept
    for told in ({"ticket": "OPS-8"}, {}):
        api.write("POST", "/api/v2/silences", body(id=silence_id, annotations=told))
        assert api.get("/api/v2/silences").json[0]["annotations"] == told
    api.write("POST", "/api/v2/silences", body(id=silence_id, annotations={"a": "b"}))
    api.write("POST", "/api/v2/silences", body(id=silence_id))
    assert api.get("/api/v2/silences").json[0]["annotations"] == {}
    number = number_of(silence_id)
    assert number is not None
    assert changes(api, number)[2][1] == "changed: annotations was {'ticket': 'OPS-8'}"


@pytest.mark.parametrize(
    ("wrong", "status", "what"),
    [
        (["a"], 422, "annotations in body must be an object of texts"),
        ({"a": 1}, 422, "annotations.a in body must be a text"),
        ({str(n): "" for n in range(21)}, 422, "annotations in body has 21 names; expected at most 20"),
        ({"a": "x" * 1_001}, 400, "the annotation a has 1001 characters; expected 1000"),
        ({"a" * 1_001: ""}, 400, "the name of an annotation has 1001 characters; expected 1000"),
    ],
)
def test_annotations_that_are_none_are_refused(api: Served, wrong: Any, status: int, what: str) -> None:
    answer = api.write("POST", "/api/v2/silences", body(annotations=wrong))
    assert answer.status == status
    assert what in answer.body.decode()
    assert api.get("/api/v2/silences").json == []


def test_one_that_is_over_is_followed_by_another(api: Served) -> None:
    first = api.write("POST", "/api/v2/silences", body()).json["silenceID"]
    api.write("DELETE", f"/api/v2/silence/{first}")
    second = api.write("POST", "/api/v2/silences", body(id=first)).json["silenceID"]
    assert first != second
    assert {s["id"]: s["status"]["state"] for s in api.get("/api/v2/silences").json} == {
        first: "expired",
        second: "active",
    }


def test_a_change_keeps_the_times_at_which_it_recurs(api: Served) -> None:
    nights = [{"times": [{"start_time": "00:00", "end_time": "06:00"}]}]
    wanted = silencing(parse_matchers('host="n1"'), NOW_MS, NOW_MS + HOUR_MS, nights, NOW_MS)
    operations.silence_matching(api.store, wanted, Person("mia"), "nights", NOW_MS)
    (row,) = api.store.silences(NOW_MS)
    api.write("POST", "/api/v2/silences", body(id=silence_uuid(row.id), comment="other"))
    (row,) = api.store.silences(NOW_MS)
    assert (row.reason, row.recurrence) == ("other", nights)


def test_which_are_listed_and_in_which_order(api: Served) -> None:
    for name, start_ms, hours in (("late", 0, 3), ("soon", 0, 2), ("pending", HOUR_MS, 2), ("over", 0, 1)):
        matchers = [{"name": "host", "value": name, "isRegex": False}]
        times = {"startsAt": iso(NOW_MS + start_ms), "endsAt": iso(NOW_MS + start_ms + hours * HOUR_MS)}
        assert api.write("POST", "/api/v2/silences", body(matchers=matchers, **times)).status == 200
    over = [s["id"] for s in api.get("/api/v2/silences").json if s["matchers"][0]["value"] == "over"]
    api.write("DELETE", f"/api/v2/silence/{over[0]}")
    shown = [(s["matchers"][0]["value"], s["status"]["state"]) for s in api.get("/api/v2/silences").json]
    assert shown == [("soon", "active"), ("late", "active"), ("pending", "pending"), ("over", "expired")]
    assert [s["matchers"][0]["value"] for s in api.get("/api/v2/silences?filter=host%3D~%22l.*%22").json] == ["late"]
    for query, expected in (
        ("?expired=false", ["soon", "late", "pending"]),
        ("?active=false", ["pending", "over"]),
        ("?active=false&pending=0&expired=true", ["over"]),
    ):
        listed = api.get(f"/api/v2/silences{query}").json
        assert [s["matchers"][0]["value"] for s in listed] == expected
    assert api.get("/api/v2/silences?active=perhaps").status == 400
    api.clock.advance_to(NOW_MS + 24 * 5 * HOUR_MS + 1)
    assert "over" not in {s["matchers"][0]["value"] for s in api.get("/api/v2/silences").json}


NO_SILENCE = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("wanted", "status", "message"),
    [
        (b"{", 400, {"code": 400}),
        (b"[" * 60_000, 400, {"code": 400}),
        (b"\xff", 400, {"code": 400}),
        (b"[]", 400, {"code": 400}),
        ({}, 422, {"code": 602, "message": "comment in body is required"}),
        (body(endsAt=None), 422, {"code": 602, "message": "endsAt in body is required"}),
        (body(startsAt="tomorrow"), 422, {"code": 601}),
        (body(startsAt="2026-09-21"), 422, {"code": 601}),
        (body(endsAt="0001-01-01T00:00:00+23:59"), 400, "silence invalid: a silence that is over"),
        (body(startsAt="0000-01-01T00:00:00Z"), 422, {"code": 601}),
        (body(startsAt="9999-12-31T23:59:59-23:59"), 400, "silence invalid: silence for -"),
        (body(endsAt=5), 422, {"code": 601}),
        (body(comment=5), 422, {"code": 601}),
        (body(matchers=[]), 422, {"code": 612}),
        (body(matchers={}), 422, {"code": 601}),
        (body(matchers=[{"name": "a", "value": "b"}]), 422, {"code": 602}),
        (body(matchers=[{"name": "a", "value": 1, "isRegex": False}]), 422, {"code": 601}),
        (body(matchers=[{"name": "a", "value": "b", "isRegex": False}] * 21), 422, {"code": 611}),
        (body(matchers=[{"name": "a", "value": "", "isRegex": False}]), 400, "silence invalid: "),
        (body(matchers=[{"name": "a", "value": "(", "isRegex": True}]), 400, "silence invalid: matcher 0: '('"),
        (body(matchers=[{"name": "a", "value": "(a{900}){900}", "isRegex": True}]), 400, "silence invalid: matcher 0"),
        (body(matchers=[{"name": "", "value": "x", "isRegex": False}]), 400, "silence invalid: matcher 0"),
        (body(endsAt=iso(NOW_MS - 1)), 400, "silence invalid: a silence that is over"),
        (body(endsAt="2099-01-01T00:00:00Z"), 400, "silence invalid: silence for"),
        (body(comment="x" * 1_001), 400, "silence invalid: comment has 1001 characters"),
        (body(createdBy="x" * 201), 400, "silence invalid: createdBy"),
        (body(id=NO_SILENCE), 404, "silence not found"),
        (body(id="no uuid"), 404, "silence not found"),
        (body(id=silence_uuid(7)), 404, "silence not found"),
    ],
)  # fmt: skip
def test_what_is_no_silence_is_refused_as_alertmanager_does(
    api: Served, wanted: object, status: int, message: Any
) -> None:
    reply = api.write("POST", "/api/v2/silences", wanted)
    assert reply.status == status, reply.body
    if isinstance(message, str):
        assert reply.json.startswith(message)
    else:
        assert message.items() <= reply.json.items()
    assert api.store.silences(NOW_MS) == []


def test_ids_that_name_none(api: Served) -> None:
    assert (api.get("/api/v2/silence/xyz").status, api.get("/api/v2/silence/xyz").json["code"]) == (422, 601)
    reply = api.get(f"/api/v2/silence/{NO_SILENCE}")
    assert (reply.status, reply.body) == (404, b"")
    assert api.write("DELETE", f"/api/v2/silence/{NO_SILENCE}").json == "silence not found"
    assert api.write("DELETE", f"/api/v2/silence/{silence_uuid(99)}").status == 404


def test_there_are_so_many_at_most(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_SILENCES", 1)
    assert api.write("POST", "/api/v2/silences", body()).status == 200
    reply = api.write("POST", "/api/v2/silences", body())
    assert (reply.status, reply.json) == (
        400,
        "silence invalid: there are 1 silences; expected fewer than 1: end some of them first",
    )


def test_roles_are_asked_where_it_is_done(api: Served) -> None:
    viewer = Person("vic", Role.VIEWER)
    matchers = parse_matchers('host="n1"')
    wanted = silencing(matchers, NOW_MS, NOW_MS + 1, (), NOW_MS)
    fire(api.store, slow("t1", "n1"))
    alert = api.store.alerts()[0].id
    for act in (
        lambda: operations.acknowledge(api.store, alert, viewer, "", NOW_MS),
        lambda: operations.silence(api.store, alert, 1, viewer, "", NOW_MS),
        lambda: operations.silence_matching(api.store, wanted, viewer, "", NOW_MS),
        lambda: operations.new_silence(api.store, matchers, NOW_MS, NOW_MS + 1, viewer, "", NOW_MS),
        lambda: operations.edit_silence(api.store, 1, operations.SilenceEdit(note="x"), viewer, NOW_MS),
        lambda: operations.end_silence(api.store, 1, viewer, NOW_MS),
    ):
        with pytest.raises(ForbiddenError, match=r"vic is viewer, and may not .*; expected the role operator"):
            act()


def test_a_silence_that_is_an_admins_is_refused_to_an_operator(api: Served) -> None:
    reply = api.write("POST", "/api/v2/silences", body(endsAt=iso(NOW_MS + 8 * 24 * HOUR_MS)))
    assert reply.status == 400
    assert "may not silence for longer than 7 d" in reply.json


@given(st.integers(0, 2**48 - 1))
def test_ids_are_uuids_of_numbers(number: int) -> None:
    assert number_of(silence_uuid(number)) == number
    assert number_of(silence_uuid(number).upper()) == number
