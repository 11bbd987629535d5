"""The script of every page: navigation, sidebar, login, and the one place that reports what a page cannot do.

Run by Streamlit, which `python -m dashboard` serves. Each page is `dashboard.views.NAME.page`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # Streamlit puts this file's folder on the path, not the one above it
    sys.path.insert(0, str(ROOT))

from app.errors import AppError  # noqa: E402  # after the path
from dashboard import links, login, looks, sidebar, watch_banner  # noqa: E402
from dashboard.events.source import history_only  # noqa: E402
from dashboard.text import md  # noqa: E402

ICON = Path(__file__).with_name("icon.svg")  # a symbol's name would be fetched from a server far away


@dataclass(frozen=True)
class PageSpec:
    """One page; `name` is its path in the URL and its module in dashboard/views.

    `hidden`: not in the menu, as it needs to be told what to show (or as the store has nothing for it).
    """

    name: str
    title: str
    icon: str
    help: str
    hidden: bool = False
    tells_now: bool = False
    """Whether it speaks of the present: it says so where that is not known."""


# In the order of the menu; pages without a module are not there. The root leads to the first one.
PAGES = (
    PageSpec(
        "alerts", "Alerts", ":material/notifications_active:", "What fires now, and what fired before.", tells_now=True
    ),
    PageSpec(
        "alert",
        "Alert",
        ":material/notification_important:",
        "One alert with its evidence.",
        hidden=True,
        tells_now=True,
    ),
    PageSpec("jobs", "Jobs", ":material/work_history:", "Jobs that run or ran.", tells_now=True),
    PageSpec("job", "Job", ":material/work:", "One job with its tasks over time.", hidden=True, tells_now=True),
    PageSpec("cluster", "Cluster", ":material/dns:", "Hosts over time, per metric.", tells_now=True),
    PageSpec("reports", "Reports", ":material/summarize:", "Stragglers, life times and queued data over the history."),
    PageSpec("queries", "Queries", ":material/manage_search:", "What is looked for."),
    PageSpec("query", "Query", ":material/search:", "One query with its matches.", hidden=True),
    PageSpec("editor", "Query editor", ":material/edit_note:", "Write a query and run it over what is kept."),
    PageSpec("health", "Health", ":material/monitor_heart:", "Sources, problems, engine and notifications."),
    PageSpec("demo", "Demo", ":material/play_circle:", "What the demo found, and a tour.", hidden=True),
)
DEMO = "demo"
"""The first page of a store that the demo filled."""

OF_WATCHING = frozenset(("alerts", "alert", "health", "queries", "query", DEMO))
"""Pages that need the database; of a store that holds only history they have nothing to show."""
ONLY_HISTORY = (
    "only history is known here. Nothing was watched: `clustercep run` keeps alerts, figures and notifications in a "
    "database, and there is none yet."
)

_TELLS_NOW = frozenset(spec.name for spec in PAGES if spec.tells_now)


def show(name: str) -> None:
    """Run a page; what it cannot do is told with its remedy, in its place."""
    if name in OF_WATCHING and _history_only():
        st.title(next(spec.title for spec in PAGES if spec.name == name))
        st.info(
            f"There is nothing for this page: {ONLY_HISTORY} Jobs, a job and the cluster are shown of the history.",
            icon=":material/inventory_2:",
        )
        links.link("jobs", "Jobs of the history", icon=":material/work_history:")
        return
    try:
        if name in _TELLS_NOW:
            watch_banner.show()
        importlib.import_module(f"dashboard.views.{name}").page()
    except AppError as error:
        st.error(f"This page cannot be shown. {md(error, 2_000)}", icon=":material/error:")
        st.button("Try again", icon=":material/refresh:")


def pages() -> dict[str, st.Page]:
    """The pages whose modules exist, by name."""
    return {spec.name: _page(spec) for spec in PAGES if find_spec(f"dashboard.views.{spec.name}") is not None}


def main() -> None:
    """One run of the script: one page for one viewer."""
    st.set_page_config(page_title="clustercep", page_icon=str(ICON), layout="wide")
    st.html(looks.STYLE)
    if not _admitted():
        return
    found = pages()
    links.register(found)
    root = st.Page(_to_first_page, title="clustercep", url_path="start", default=True, visibility="hidden")
    chosen = st.navigation([root, *found.values()])
    st.set_page_config(page_title=f"{chosen.title} · clustercep")
    sidebar.show()
    chosen.run()


def _to_first_page() -> None:
    first = DEMO if watch_banner.is_demo() else "jobs" if _history_only() else PAGES[0].name
    links.go(first, **st.query_params.to_dict())


def _history_only() -> bool:
    try:
        return history_only()
    except AppError:  # the first page says why
        return False


def _admitted() -> bool:
    try:
        return login.admitted()
    except AppError as error:  # settings that cannot be read: whether a login is needed is not known
        st.error(md(error, 4_000), icon=":material/error:")
        return False


def _page(spec: PageSpec) -> st.Page:
    return st.Page(
        _runner(spec.name),
        title=spec.title,
        icon=spec.icon,
        url_path=spec.name,
        visibility="hidden" if spec.hidden and not (spec.name == DEMO and watch_banner.is_demo()) else "visible",
        help=spec.help,
    )


def _runner(name: str) -> Callable[[], None]:
    def run() -> None:
        show(name)

    return run


if __name__ == "__main__":
    main()
