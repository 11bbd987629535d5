"""What the JVM of a job writes on its standard error reaches ours, whole and in order, but for a line about itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.jvm_errors import SAID_OF_ITSELF, PassedOn
from tests.collectors import histories
from tests.spark_jobs.test_interruption import HISTORY, ROOT, WITHIN_S, started

OWN = SAID_OF_ITSELF[0]
JAVA_THAT_DIES = """#!/bin/sh
case "$*" in
  *org.apache.spark.launcher.Main*) exec {java} "$@" ;;
esac
printf 'WARNING: Using incubator modules: jdk.incubator.vector\\n' >&2
printf 'Error: no room for the heap' >&2
exit 1
"""


def heard(blocks: list[bytes]) -> bytes:
    """What is passed on of these, each written by itself."""
    read_end, write_end = os.pipe()
    written: list[bytes] = []
    passed_on = PassedOn(read_end, written.append)
    for block in blocks:
        os.write(write_end, block)
    os.close(write_end)
    passed_on.join(WITHIN_S)
    return b"".join(written)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", b""),
        (OWN, b""),
        (OWN + b"\n", b""),
        (OWN + b"\r\nx", b"x"),
        (b"a\n" + OWN + b"\nb\n", b"a\nb\n"),
        (OWN + b"\n" + OWN + b"\n", OWN + b"\n"),  # the second one is somebody else's
        (b"x " + OWN + b"\n", b"x " + OWN + b"\n"),
        (OWN + b", foo\n", OWN + b", foo\n"),
        (b"WARNING: Using", b"WARNING: Using"),  # a JVM that dies in the middle of a line
        (b"\x00\xff\r\r\n\n\n", b"\x00\xff\r\r\n\n\n"),
    ],
)
def test_all_else_is_passed_on(said: bytes, expected: bytes) -> None:
    draw = random.Random(len(said))
    assert heard([said] if said else []) == expected
    assert heard([said[place : place + 1] for place in range(len(said))]) == expected
    cuts = sorted(draw.choices(range(len(said) + 1), k=3))
    parts = [said[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    assert heard([part for part in parts if part]) == expected


def test_much_is_passed_on_in_order() -> None:
    said = b"".join(b"line %d\n" % number for number in range(50_000))
    assert heard([said[:100_000], OWN[:10], OWN[10:], b"\n", said[100_000:]]) == (
        said[:100_000] + OWN + b"\n" + said[100_000:]  # in the middle of a line it is no line
    )


def test_a_job_says_nothing_but_its_own_words(tmp_path: Path) -> None:
    source = tmp_path / "in" / HISTORY
    source.parent.mkdir()
    source.write_bytes(histories.whole_history())
    store = ["--store", str(tmp_path / "store"), "--master", "local[1]"]
    for words in (["ingest", str(source.parent), *store], ["report", "stragglers", "--format", "json", *store]):
        with started(words) as process:
            printed, told = process.communicate(timeout=WITHIN_S)
        assert (process.returncode, told) == (0, "")
    assert json.loads(printed)


def test_why_a_jvm_does_not_start_is_heard(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    found = subprocess.run(["/bin/sh", "-c", "command -v java"], capture_output=True, text=True, check=True)
    java.write_text(JAVA_THAT_DIES.format(java=Path(found.stdout.strip()).resolve()))
    java.chmod(0o755)
    code = (
        "from spark_jobs.session import spark_session\n"
        "from spark_jobs import session\n"
        "session.check_java = lambda: None\n"
        "with spark_session('x', 'local[1]'): pass\n"
    )
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: no room for the heap")
    assert "SparkJobError: Spark did not start on local[1]" in ended.stderr
