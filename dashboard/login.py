"""Who looks: with `dashboard.login` nobody sees anything before OIDC (`st.login`) has told who they are."""

from __future__ import annotations

import streamlit as st

from app.alerting.people import Person
from dashboard.store import settings
from dashboard.text import inert

ANYBODY = "dashboard"
"""The actor of changes where nobody logs in."""


def admitted() -> bool:
    """Whether the page may be shown; else the login is."""
    if not settings().dashboard.login or _logged_in():
        return True
    st.title("clustercep")
    if "is_logged_in" not in st.user:
        st.error(
            "A login is asked for (dashboard.login), but none is set up. Write the provider's [auth] section into "
            ".streamlit/secrets.toml, as docs/operations.md shows, and start the dashboard again.",
            icon=":material/lock:",
        )
        return False
    st.write("Log in to see the alerts of this cluster.")
    st.button("Log in", icon=":material/login:", type="primary", on_click=st.login)
    return False


def person() -> Person:
    """Who acknowledges and silences: name or e-mail of the login, else `dashboard`."""
    if not (settings().dashboard.login and _logged_in()):
        return Person(ANYBODY)
    return Person(_name())


def _name() -> str:
    for claim in ("name", "email", "preferred_username", "sub"):
        value = st.user.get(claim)
        if isinstance(value, str) and inert(value):
            return inert(value)
    return "somebody who logged in without a name"


def _logged_in() -> bool:
    return st.user.get("is_logged_in") is True
