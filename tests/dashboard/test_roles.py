"""Who is what: claims of a login, a file, a reverse proxy's header with its secret, or nobody in particular."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.alerting.operations import MAX_ACTOR_CHARS
from app.alerting.people import Role
from app.errors import ConfigError
from app.settings import DashboardSettings
from dashboard import roles

ISSUER = "https://login.example.org/realm"


def settings(**given: Any) -> DashboardSettings:
    return DashboardSettings.model_validate(given)


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ({}, Role.OPERATOR),
        ({"address": "localhost"}, Role.OPERATOR),
        ({"address": "::1"}, Role.OPERATOR),
        ({"address": "0.0.0.0"}, Role.VIEWER),
        ({"address": "monitor.example.org"}, Role.VIEWER),
        ({"anonymous_role": "viewer"}, Role.VIEWER),
        ({"address": "0.0.0.0", "anonymous_role": "operator"}, Role.OPERATOR),
        ({"proxy": {"secret_file": "x"}}, Role.VIEWER),  # everybody comes from loopback
        ({"proxy": {"secret_file": "x"}, "anonymous_role": "operator"}, Role.OPERATOR),
        ({"login": True}, Role.VIEWER),
        ({"login": True, "anonymous_role": "operator"}, Role.VIEWER),
    ],
)
def test_nobody_in_particular(given: dict[str, Any], role: Role) -> None:
    assert roles.anonymous(settings(**given)).role is role


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "roles"
    path.write_text(f"# who may\noperator {ISSUER} 4711\nadmin proxy ada\nadmin https://other.example 4712\n")
    return path


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"iss": ISSUER, "sub": "4711", "groups": []}, Role.OPERATOR),
        ({"iss": ISSUER, "sub": "4712"}, Role.VIEWER),  # another issuer's
        ({"iss": ISSUER, "sub": "4713", "groups": ["on-call", "x"]}, Role.OPERATOR),
        ({"iss": ISSUER, "sub": "4711", "groups": ["platform"]}, Role.ADMIN),
        ({"iss": ISSUER, "sub": "4713", "groups": "platform"}, Role.ADMIN),
        ({"iss": ISSUER, "sub": "4713", "groups": [["platform"], 7, None]}, Role.VIEWER),
        ({"iss": ISSUER, "sub": "4713", "groups": {"platform": 1}}, Role.VIEWER),
        ({"iss": "proxy", "sub": " ada2"}, Role.VIEWER),
        ({"name": "4711"}, Role.VIEWER),
        ({}, Role.VIEWER),
    ],
)
def test_claims_and_the_file_give_roles(file: Path, claims: dict[str, Any], role: Role) -> None:
    given = settings(roles_claim="groups", claim_roles={"on-call": "operator", "platform": "admin"}, roles_file=file)
    assert roles.logged_in(claims, given).role is role


def test_where_nobody_gives_roles_who_is_let_in_is_an_operator() -> None:
    assert roles.logged_in({"iss": ISSUER, "sub": "1"}, settings()).role is Role.OPERATOR


def test_a_chosen_name_is_shown_beside_what_is_nobody_elses() -> None:
    person = roles.logged_in({"iss": ISSUER, "sub": "4711", "name": "Ann\u202e"}, settings())
    assert (person.name, person.identity) == ("Ann [4711 of login.example.org/realm]", f"{ISSUER} 4711")
    assert roles.logged_in({"iss": "http://x", "sub": "ann"}, settings()).name == "ann [of http://x]"
    assert roles.logged_in({"sub": "4711", "name": "Ann"}, settings()).name == "Ann [4711]"
    assert roles.logged_in({}, settings()).name == "somebody who logged in without a name"


_LONG = "4711" * 30


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"iss": ISSUER, "sub": "4711"}, {"iss": f"{ISSUER}2", "sub": "4711"}),  # two realms on one host
        ({"iss": ISSUER, "sub": "4711"}, {"iss": ISSUER.replace("https", "http"), "sub": "4711"}),
        ({"iss": ISSUER, "sub": "4711"}, {"iss": "https://login.example.org:8443/realm", "sub": "4711"}),
        ({"iss": ISSUER, "sub": f"{_LONG}1"}, {"iss": ISSUER, "sub": f"{_LONG}2"}),
        ({"iss": f"{ISSUER}/{_LONG}1", "sub": "1"}, {"iss": f"{ISSUER}/{_LONG}2", "sub": "1"}),
        ({"iss": ISSUER, "sub": "a\u202eb"}, {"iss": ISSUER, "sub": "ab"}),  # what is not shown tells apart, too
        ({"iss": ISSUER, "sub": "Ann"}, {"iss": f"{ISSUER}2", "sub": "Ann"}),  # the name is the subject
    ],
)
@pytest.mark.parametrize("name", ["Ann", "A" * 500, ""])
def test_who_is_not_the_same_is_another_actor(one: dict[str, str], other: dict[str, str], name: str) -> None:
    """In the history too, which keeps so many characters."""
    found = [roles.logged_in({**claims, "name": name}, settings()) for claims in (one, other)]
    assert found[0].identity != found[1].identity
    assert found[0].name != found[1].name
    assert all(len(person.name) <= MAX_ACTOR_CHARS for person in found)


def test_long_names_of_a_proxy_are_told_apart(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 30)
    given = settings(proxy={"secret_file": secret})
    names = {
        roles.told_by_proxy([("x-forwarded-user", user), ("x-clustercep-secret", "s" * 30)], given).name
        for user in (f"{_LONG}{_LONG}1", f"{_LONG}{_LONG}2")
    }
    assert len(names) == 2
    assert all(len(name) <= MAX_ACTOR_CHARS for name in names)


@pytest.mark.parametrize(
    ("headers", "name", "role"),
    [
        ([("x-forwarded-user", "ada"), ("X-Clustercep-Secret", "s" * 30)], "ada", Role.ADMIN),
        ([("X-Forwarded-User", "bob"), ("x-clustercep-secret", "s" * 30)], "bob", Role.VIEWER),
        ([("X-Forwarded-User", "ada"), ("X-Clustercep-Secret", "wrong")], "dashboard", Role.VIEWER),
        ([("X-Forwarded-User", "ada")], "dashboard", Role.VIEWER),
        ([("X-Clustercep-Secret", "s" * 30)], "dashboard", Role.VIEWER),
        ([("X-Forwarded-User", " "), ("X-Clustercep-Secret", "s" * 30)], "dashboard", Role.VIEWER),
        # a proxy that appends instead of replacing: whose is whose is not known
        (
            [("X-Forwarded-User", "ada"), ("X-Forwarded-User", "eve"), ("X-Clustercep-Secret", "s" * 30)],
            "dashboard",
            Role.VIEWER,
        ),
        ([], "dashboard", Role.VIEWER),
    ],
)
def test_a_reverse_proxy_is_believed_with_its_secret_alone(
    tmp_path: Path, file: Path, headers: list[tuple[str, str]], name: str, role: Role
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 30 + "\n")
    given = settings(proxy={"secret_file": secret}, roles_file=file)
    person = roles.told_by_proxy(headers, given)
    assert (person.name, person.role) == (name, role)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("boss proxy ada\n", "line 1: no role with its issuer and subject"),
        ("\nadmin ada\n", "line 2: no role"),
        ("admin proxy ada\nviewer proxy ada\n", "line 2: somebody for the second time"),
    ],
)
def test_a_file_that_is_wrong_lets_nobody_act(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "roles"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"dashboard.roles_file: found {found}"):
        roles.logged_in({"iss": ISSUER, "sub": "1"}, settings(roles_file=path))
    with pytest.raises(ConfigError, match="No such file"):
        roles.read_roles(tmp_path / "none")


@pytest.mark.parametrize(
    "given",
    [
        {"roles_claim": "groups"},
        {"claim_roles": {"a": "admin"}},
        {"login": True, "proxy": {"secret_file": "x"}},
        {"anonymous_role": "boss"},
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**given)
