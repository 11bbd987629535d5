"""Finds free TCP and UDP ports on loopback addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from deploy.minicluster.errors import StartError

_KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM)


def is_free(port: int, addresses: Iterable[str]) -> bool:
    """Whether `port` can be bound for TCP and UDP on every one of `addresses`."""
    for address in addresses:
        for kind in _KINDS:
            with socket.socket(socket.AF_INET, kind) as probe:
                if kind == socket.SOCK_STREAM:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((address, port))
                except OSError:
                    return False
    return True


def choose(preferred: Mapping[str, int], addresses: Iterable[str], search: int = 2000) -> dict[str, int]:
    """For each name the preferred port, or the next higher one that is free and not yet given away.

    A port must be free on all `addresses` and on the wildcard address, since some servers of Hadoop
    bind that. Raises StartError when `search` ports in a row are taken.
    """
    everywhere = [*addresses, "0.0.0.0"]  # noqa: S104 - only probed, never listened on
    chosen: dict[str, int] = {}
    for name, first in preferred.items():
        candidates = (port for port in range(first, min(first + search, 65536)) if port not in chosen.values())
        port = next((candidate for candidate in candidates if is_free(candidate, everywhere)), None)
        if port is None:
            raise StartError(
                f"no free port for {name}: {first} to {min(first + search, 65536) - 1} are taken; set ports.{name}"
            )
        chosen[name] = port
    return chosen
