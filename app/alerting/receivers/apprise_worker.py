"""The process in which apprise tells one service of one message; `through_apprise` starts it.

It imports nothing of clustercep: it gets the message on its standard input, and no secret of others. Its plugins are
those that come with apprise, redirects are not followed, and no password of ~/.netrc is used.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> int:
    """0: taken; 3: not taken; 4: the address is none that apprise knows."""
    given: dict[str, Any] = json.load(sys.stdin)
    import requests

    def follow_nowhere(*_args: Any, **_kwargs: Any) -> Any:
        yield from ()

    def without_netrc(_session: Any, url: str, *settings: Any) -> dict[str, Any]:
        proxies, stream, verify, cert = settings
        return {
            "proxies": proxies or requests.utils.get_environ_proxies(url),
            "stream": stream or False,
            "verify": verify is not False,
            "cert": cert,
        }

    requests.Session.resolve_redirects = follow_nowhere  # type: ignore[method-assign]
    requests.Session.merge_environment_settings = without_netrc  # type: ignore[method-assign,assignment]
    requests.sessions.get_netrc_auth = lambda *_args, **_kwargs: None
    import apprise

    asset = apprise.AppriseAsset(plugin_paths=[], storage_path=None, async_mode=False, secure_logging=True)
    found = apprise.Apprise(asset=asset)
    if not found.add(given["url"]) or len(found) != 1:
        return 4
    kind = {"failure": apprise.NotifyType.FAILURE, "warning": apprise.NotifyType.WARNING}
    taken = found.notify(
        title=given["title"],
        body=given["body"],
        notify_type=kind.get(
            given["type"], apprise.NotifyType.SUCCESS if given["type"] == "success" else apprise.NotifyType.INFO
        ),
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
    )
    return 0 if taken else 3


if __name__ == "__main__":
    sys.exit(main())
