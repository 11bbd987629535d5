"""Ports of loopback that a test has to name before somebody listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_port() -> Iterator[int]:
    """A port of 127.0.0.1 for a server that is started inside, and started again: nobody else is given it meanwhile.

    A port that is looked for and let go is anybody's until the server has it, also as the near end of a connection.
    Linux lets a server with SO_REUSEADDR listen where another socket that has it, too, is bound and does not listen.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
