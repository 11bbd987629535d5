"""Who looks: with `dashboard.login` nobody sees anything before OIDC (`st.login`) has told who they are."""

from __future__ import annotations

import streamlit as st

from app.alerting.people import Person
from app.settings import DashboardSettings
from dashboard import roles
from dashboard.store import settings


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
    """Who acts: whoever logged in, or whom the reverse proxy tells, else nobody in particular; raises ConfigError."""
    chosen = settings().dashboard
    if chosen.login and _logged_in():
        return roles.logged_in({name: st.user.get(name) for name in _claims(chosen)}, chosen)
    if chosen.proxy is not None:
        return roles.told_by_proxy(st.context.headers.items(), chosen)
    return roles.anonymous(chosen)


def _claims(chosen: DashboardSettings) -> list[str]:
    names = ["iss", "sub", "name", "email", "preferred_username"]
    return names if chosen.roles_claim is None else [*names, chosen.roles_claim]


def _logged_in() -> bool:
    return st.user.get("is_logged_in") is True
