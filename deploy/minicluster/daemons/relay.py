"""TCP connections passed on from an address of a host's own.

Linux gives every connection to a loopback address the source 127.0.0.1, and a NameNode knows a DataNode by the address
from which it comes: without this all of them would be one host.
"""

from __future__ import annotations

import contextlib
import socket
import threading

CONNECT_TIMEOUT_S = 10.0
BLOCK_BYTES = 1 << 16


class Relay:
    """Listens on a host's address and connects to `target` as that host."""

    def __init__(self, address: str, target: tuple[str, int]) -> None:
        """It listens on the port of `target`; raises OSError when that is taken."""
        self._address, self._target = address, target
        self._listener = socket.create_server((address, target[1]))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name=f"relay-{address}", daemon=True).start()

    def close(self) -> None:
        """End it with all its connections."""
        with self._lock:
            self._closed = True
            listed = [self._listener, *self._open]
        for each in listed:
            _shut(each)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, CONNECT_TIMEOUT_S, (self._address, 0))
                far.settimeout(None)
            except OSError:
                near.close()  # the daemon tries again
                continue
            with self._lock:
                self._open |= {near, far}
                is_closed = self._closed
            if is_closed:
                _shut(near)
                _shut(far)
            # The second of the two ends both sockets: one that is closed while the other reads it might be another's.
            ends = threading.Semaphore(1)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink, ends), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, ends: threading.Semaphore) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK_BYTES):
                sink.sendall(block)
        _shut(source)
        _shut(sink)
        if not ends.acquire(blocking=False):
            with self._lock:
                self._open -= {source, sink}
            source.close()
            sink.close()


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
