"""The pages' server, `python -m dashboard OPTIONS`, started by `clustercep dashboard`.

OPTIONS is a JSON object of Streamlit's options by their names.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import signal
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from starlette.types import Receive, Scope, Send
from streamlit import file_util, net_util
from streamlit.starlette import App

from app.errors import AppError
from app.process.spare_memory import rarely_collect
from dashboard import views
from dashboard.queries.list import loaded_queries
from dashboard.request_guard import RequestGuard
from dashboard.store import event_log, live_store

SCRIPT = Path(__file__).with_name("main.py")


class Dashboard(App):
    """Streamlit's pages behind our guard: around all of it, so that answers to its own errors have our headers too."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(SCRIPT)
        first_page = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
        self._guard = RequestGuard(super().__call__, first_page, options["server.allowedHosts"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        await self._guard(scope, receive, send)


def main(options: dict[str, Any]) -> None:
    """Serve until SIGINT or SIGTERM; raises SystemExit, with 0 after a signal."""
    # To judge a request of a foreign origin, Streamlit would ask a server outside for this machine's address.
    net_util.get_external_ip = _unknown
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)  # the server ends its work, then raises the signal anew
    threading.Thread(target=load_pages, name="load-pages", daemon=True).start()  # seconds, once per process
    Dashboard(options).run(config=options)


def load_pages() -> None:
    """Import what pages need, compile the queries and read the footers of the event log, so that not the first viewer
    waits for it. A page that cannot be imported says so itself when it is opened."""
    for module in pkgutil.iter_modules(views.__path__, f"{views.__name__}."):
        import_module(module.name)
    with suppress(AppError):  # what is wrong is told by the page that asks for it
        loaded_queries()
    with suppress(AppError):
        if live_store() is not None:
            event_log().span()
    inspect.stack()  # Streamlit asks at the first thing that it shows; Python looks for the places of all modules then
    rarely_collect()  # Streamlit looks at all objects there are after each run of a page


def _unknown() -> None:
    return None


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
