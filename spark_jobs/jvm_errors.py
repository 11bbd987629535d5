"""What the JVM of a session writes on its standard error: passed on byte by byte, without what it says of itself.

And what calls raise when it ends while they wait.

Spark's scripts start the JVM with a module that makes it warn, and no option of either silences that line.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

SAID_OF_ITSELF = (b"WARNING: Using incubator modules: jdk.incubator.vector",)
"""Lines that mean nothing to those who start a job; each is left out once for each JVM."""

JVM_ENDED = (Py4JError, ConnectionError)
"""What a call raises when the JVM ends meanwhile: py4j's own error; or the socket's, since PySpark asks the JVM what
kind of error an answer is, and so does py4j for its text."""

LAST_WORDS_S = 3.0
"""A JVM that has been told to end says its last words within this time, or nobody hears them."""

_BLOCK_BYTES = 1 << 16

_passed_on: list[PassedOn] = []


class PassedOn:
    """Reads a pipe to its end in a thread of its own, and writes what it reads with `write`."""

    def __init__(self, read_end: int, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._left_out = set(SAID_OF_ITSELF)
        self._thread = threading.Thread(target=self._run, args=(read_end,), name="stderr of the JVM", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the pipe: all of its writers have ended."""
        self._thread.join(timeout_s)

    def _run(self, read_end: int) -> None:
        """Whole lines are compared; the beginning of a line waits only while it may become one that is left out."""
        begun, is_at_start = b"", True
        try:
            while block := os.read(read_end, _BLOCK_BYTES):
                kept = []
                for piece in (begun + block).splitlines(keepends=True):
                    begun = b""
                    if is_at_start and self._may_become(piece):
                        begun = piece
                        continue
                    if not (is_at_start and self._is_left_out(piece)):
                        kept.append(piece)
                    is_at_start = piece.endswith(b"\n")
                self._write(b"".join(kept))
            if not self._is_left_out(begun):
                self._write(begun)
        finally:
            os.close(read_end)

    def _may_become(self, piece: bytes) -> bool:
        text = piece.rstrip(b"\r")
        return not piece.endswith(b"\n") and any(line.startswith(text) for line in self._left_out)

    def _is_left_out(self, piece: bytes) -> bool:
        line = piece.rstrip(b"\r\n")
        if line not in self._left_out:
            return False
        self._left_out.remove(line)
        return True


def quiet_gateway(conf: SparkConf) -> JavaGateway:
    """Start the JVM of a session, as `SparkContext` does itself; raises what PySpark raises when it does not start."""
    if not _passed_on:
        atexit.register(_end_and_hear)
    read_end, write_end = os.pipe()
    try:
        passed_on = PassedOn(read_end, to_stderr)
        _passed_on.append(passed_on)
        try:
            gateway: JavaGateway = launch_gateway(conf, {"stderr": write_end})  # type: ignore[no-untyped-call]  # PySpark's
        finally:
            os.close(write_end)  # the JVM has its own
    except Exception:
        passed_on.join(LAST_WORDS_S)  # why it did not start
        raise
    return gateway


def hear_last_words() -> None:
    """Wait until all has been passed on that the JVMs had to say which have ended, or are ending."""
    for passed_on in _passed_on:
        passed_on.join(LAST_WORDS_S)


def _end_and_hear() -> None:
    """Close what the JVM waits for, as the end of this process would, while there is somebody to hear it."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    hear_last_words()


def to_stderr(block: bytes) -> None:
    """To the standard error of this process; nowhere when nobody reads that, so that the JVM goes on."""
    with suppress(OSError):
        while block:
            block = block[os.write(2, block) :]


__all__ = ["JVM_ENDED", "LAST_WORDS_S", "SAID_OF_ITSELF", "PassedOn", "hear_last_words", "quiet_gateway", "to_stderr"]
