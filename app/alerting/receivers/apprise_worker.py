"""The process in which apprise tells one service of one message; `through_apprise` starts it.

It imports nothing of clustercep: it gets the message on its standard input, and no secret of others. Its plugins are
those that come with apprise, redirects are not followed, and no password of ~/.netrc is used. It ends when its time is
over, also when who started it is no more.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

MAX_BYTES = 512 << 20
"""Of memory: plugins read whatever a service answers to its end."""
_CUT = "…"
_TITLE_MARKS_CHARS = 16
"""A line break, and what makes a heading of the title, where it is the first line of the text."""


def main() -> int:
    """0: taken; 3: not taken; 4: the address is none that apprise knows."""
    given: dict[str, Any] = json.load(sys.stdin)
    signal.setitimer(signal.ITIMER_REAL, given["timeout_s"])
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    import requests

    trusted = given["ca_file"] or os.environ.get("REQUESTS_CA_BUNDLE") or True
    shown = tuple(given["certificate"]) if given["certificate"] else None

    def follow_nowhere(*_args: Any, **_kwargs: Any) -> Any:
        yield from ()

    def without_netrc(_session: Any, url: str, *settings: Any) -> dict[str, Any]:
        proxies, stream, verify, _cert = settings
        return {
            "proxies": proxies or requests.utils.get_environ_proxies(url),
            "stream": stream or False,
            "verify": verify is not False and trusted,
            "cert": shown,
        }

    requests.Session.resolve_redirects = follow_nowhere  # type: ignore[method-assign]
    requests.Session.merge_environment_settings = without_netrc  # type: ignore[method-assign,assignment]
    requests.sessions.get_netrc_auth = lambda *_args, **_kwargs: None
    import apprise

    asset = apprise.AppriseAsset(plugin_paths=[], storage_path=None, async_mode=False, secure_logging=True)
    found = apprise.Apprise(asset=asset)
    if not found.add(given["url"]) or len(found) != 1:
        return 4
    title, body = fitted(found[0], given["title"], given["body"], given["end"])
    kind = {"failure": apprise.NotifyType.FAILURE, "warning": apprise.NotifyType.WARNING}
    taken = found.notify(
        title=title,
        body=body,
        notify_type=kind.get(
            given["type"], apprise.NotifyType.SUCCESS if given["type"] == "success" else apprise.NotifyType.INFO
        ),
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
    )
    return 0 if taken else 3


def fitted(service: Any, title: str, body: str, end: str) -> tuple[str, str]:
    """Title and text within what the service takes, which refuses longer ones; the text keeps its `end`, an address.

    An address of apprise may say `overflow=split` itself: several messages in place of a shorter one.
    """
    import apprise

    if service.overflow_mode == apprise.OverflowMode.SPLIT:
        return title, body
    service.overflow_mode = apprise.OverflowMode.TRUNCATE  # of what is longer in the service's own form
    if service.title_maxlen > 0:
        title = cut(title, service.title_maxlen)
        most = service.body_maxlen
    else:
        title = cut(title, service.body_maxlen // 2)
        most = service.body_maxlen - len(title) - _TITLE_MARKS_CHARS
    if len(body) <= most:
        return title, body
    tail = f"\n{end}" if end and len(end) < most // 2 else ""
    return title, cut(body, most - len(tail)) + tail


def cut(text: str, most: int) -> str:
    """At most so many characters, which show that there were more."""
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


if __name__ == "__main__":
    sys.exit(main())
