"""One HTTP request to a loopback address, without following redirects (their host names are the cluster's own)."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What came back; `location` is a redirect's target."""

    status: int
    content_type: str
    body: str
    location: str = ""

    def json(self) -> Any:
        """The body as JSON, None when it is something else or the status is not 2xx."""
        if not 200 <= self.status < 300:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def request(
    address: str,
    port: int,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    content_type: str = "application/json",
    timeout_s: float = 10.0,
) -> Answer:
    """Send one request. Raises OSError or http.client.HTTPException when no answer comes."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = content_type
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        return Answer(
            response.status, response.getheader("Content-Type", ""), text, response.getheader("Location", "") or ""
        )
    finally:
        connection.close()


def get_json(address: str, port: int, path: str) -> Any:
    """The JSON at `path`; None when there is no useful answer (yet)."""
    try:
        return request(address, port, path).json()
    except (OSError, http.client.HTTPException):
        return None
