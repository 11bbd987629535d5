"""Links between pages, as URLs that can be sent, and to Hadoop's own pages of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

import streamlit as st

from dashboard.store import settings

Value = str | int | float | bool | None

_PAGES = "clustercep-pages"
_JOB_ID = re.compile(r"(?:job|application)_([0-9]{1,20}_[0-9]{1,10})")


def url(page: str, **params: Value) -> str:
    """Address of a page, relative to any other one; parameters without a value are left out."""
    given = {name: str(value) for name, value in params.items() if value is not None}
    return f"{quote(page)}?{urlencode(given)}" if given else quote(page)


def sent_url(page: str, **params: Value) -> str:
    """The whole address, as notifications carry it: below alerting.external_url."""
    return f"{settings().alerting.external_url.rstrip('/')}/{url(page, **params)}"


def register(pages: Mapping[str, st.Page]) -> None:
    """Tell which pages this run's navigation has; `dashboard.main` does so first."""
    st.session_state[_PAGES] = dict(pages)


def link(
    page: str,
    label: str,
    *,
    icon: str | None = None,
    help: str | None = None,
    span: tuple[int, int] | None = None,
    **params: Value,
) -> None:
    """A link inside the dashboard; `span` becomes `from` and `to`.

    `label` is read as Markdown: hostile text goes through `dashboard.text.md`.
    """
    target = st.session_state.get(_PAGES, {}).get(page)
    given = {**params, **({} if span is None else {"from": span[0], "to": span[1]})}
    if target is None:
        st.link_button(label, url(page, **given), icon=icon, help=help, type="tertiary")
    else:
        texts = {name: str(value) for name, value in given.items() if value is not None}
        st.page_link(target, label=label, icon=icon or "", help=help or "", query_params=texts)


def go(page: str, **params: Value) -> None:
    """Leave for another page (where the navigation has it)."""
    target = st.session_state.get(_PAGES, {}).get(page)
    if target is not None:
        st.switch_page(target, query_params={n: str(v) for n, v in params.items() if v is not None})


def has_page(page: str) -> bool:
    """Whether this run's navigation has the page."""
    return page in st.session_state.get(_PAGES, {})


def job_links(job_id: str) -> list[tuple[str, str]]:
    """(label, URL) of a job's pages elsewhere: the configured ones, then Hadoop's. None for what is no job's id."""
    found = _JOB_ID.fullmatch(job_id)
    if found is None:
        return []
    names = {"job_id": f"job_{found[1]}", "application_id": f"application_{found[1]}"}
    configured = settings()
    links = [(label, _filled(template, names)) for label, template in configured.dashboard.links.items()]
    yarn = configured.sources.yarn_rest
    if yarn.enabled:
        links.append(("JobHistoryServer", f"{yarn.history_server.rstrip('/')}/jobhistory/job/{names['job_id']}"))
    return links + _manager_links(names["application_id"])


def application_links(application_id: str) -> list[tuple[str, str]]:
    """The same of an application that runs no job; None for what is no application's id."""
    if not application_id.startswith("application_") or _JOB_ID.fullmatch(application_id) is None:
        return []
    templates = settings().dashboard.links.items()
    names = {"application_id": application_id}
    links = [(label, _filled(template, names)) for label, template in templates if "{job_id}" not in template]
    return links + _manager_links(application_id)


def _manager_links(application_id: str) -> list[tuple[str, str]]:
    yarn = settings().sources.yarn_rest
    addresses = yarn.resource_managers[:1] if yarn.enabled else ()
    return [("ResourceManager", f"{address.rstrip('/')}/cluster/app/{application_id}") for address in addresses]


def _filled(template: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        template = template.replace(f"{{{name}}}", value)
    return template
