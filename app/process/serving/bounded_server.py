"""A server with a thread per connection, and a bounded number of them that nobody can hold."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from typing import Any

MAX_WAIT_S = 1.0
"""For a thread of a connection that was hung up on to end."""


class BoundedServer(socketserver.ThreadingTCPServer):
    """When there are as many connections as there may be, one that is not being answered is hung up on.

    It is the one of which nothing has been heard for longest: those who send nothing make room for those who ask.
    Handlers say when a request has been read and when its answer is made; sending it is waiting for the client again.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1_024  # else a burst makes others wait for a second and more before they are connected

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[Any, ...],
        handler: type[socketserver.BaseRequestHandler],
        n_connections: int,
    ) -> None:
        self.address_family = family
        self._n_connections = n_connections
        self._lock = threading.Lock()
        self._open: dict[socket.socket, bool] = {}
        """Connections, that which waits for longest first, and whether each may be hung up on."""
        # Threads of those that were hung up on end a moment later.
        self._free_threads = threading.BoundedSemaphore(2 * n_connections)
        super().__init__(address, handler)

    def begin_answer(self, connection: socket.socket) -> bool:
        """A request has been read; False when the connection has been hung up on meanwhile."""
        with self._lock:
            if connection not in self._open:
                return False
            self._open[connection] = False
            return True

    def end_answer(self, connection: socket.socket) -> None:
        """What happens next is up to the client."""
        with self._lock:
            if self._open.pop(connection, None) is not None:
                self._open[connection] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hang up at once on whom there is no room for."""
        if not self._make_room(request) or not self._free_threads.acquire(timeout=MAX_WAIT_S):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free_threads.release()
            raise

    def _make_room(self, request: socket.socket) -> bool:
        with self._lock:
            if len(self._open) >= self._n_connections:
                waiting = next((connection for connection, may_go in self._open.items() if may_go), None)
                if waiting is None:
                    return False
                del self._open[waiting]
                with suppress(OSError):
                    waiting.shutdown(socket.SHUT_RDWR)  # its thread finds its end, and closes it
            self._open[request] = True
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the connection's thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_threads.release()

    def shutdown_request(self, request: Any) -> None:
        """Close; nobody may hang up on a number that is another connection's by then."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)
