"""JSON that would take many times its bytes as objects is refused before it is parsed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.base import ProblemLog
from collectors.history.rumen_trace import RumenParser
from collectors.network.bounded_json import TooManyValuesError, extent, loads, n_values

N_OBJECTS = 20_000_000
"""`{},` each: 60 MB, as objects 1.4 GB."""
MOST_MIB = 500

READERS = {
    "rest": """
from collectors.network.http import Answer
from collectors.rest.documents import DocumentError, parse_apps
try:
    parse_apps(Answer("http://rm/apps", 200, "application/json", b'{"apps": {"app": ' + data + b"}}"))
except DocumentError as error:
    print(error.kind)
""",
    "rumen": """
from collectors.base import ProblemLog
from collectors.history.rumen_trace import RumenParser
problems = ProblemLog("rumen")
RumenParser("trace", problems, 0).parse(b'{"jobID": 1, "mapTasks": ' + data + b"}")
print(*(problem.kind for problem in problems.drain()))
""",
    "jhist": """
from collectors.base import ProblemLog
from collectors.history.jhist import JhistParser
problems = ProblemLog("job_history")
parser = JhistParser("job.jhist", problems, 0)
for start in range(0, len(data), 1 << 20):
    parser.feed((b"" if start else b"Avro-Json\\n") + data[start : start + (1 << 20)])
parser.close()
print(*(problem.kind for problem in problems.drain()))
""",
    "events": """
import pathlib, tempfile
from app.event_file import EventFileError, read_event_file
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "events.jsonl")
    path.write_bytes(b'{"type": "A", "t": 1, "x": ' + data + b"}\\n")
    try:
        read_event_file(str(path))
    except EventFileError as error:
        print(str(error).count("values"))
""",
    "recording": """
import gzip, pathlib, tempfile
from app.errors import RecordingError
from app.replay.recorded_rest import RecordedRest
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "rest.jsonl.gz")
    path.write_bytes(gzip.compress(b'{"t_ms": 1, "path": "/", "status": 200, "body": ' + data + b"}\\n", 1))
    try:
        RecordedRest(path)
    except RecordingError as error:
        print("values" in str(error))
""",
}
TOLD = {"rest": "too_large", "rumen": "bad_record not_a_trace", "jhist": "oversized_record truncated", "events": "1",
        "recording": "True"}  # fmt: skip

SCRIPT = """
data = b"[" + b"{{}}," * {n} + b"{{}}]"
{reader}
with open("/proc/self/status") as status:  # its own peak: that of getrusage begins with what the parent had
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("reader", READERS)
def test_a_line_of_60_mb_takes_a_bounded_part_of_memory(reader: str) -> None:
    script = SCRIPT.format(n=N_OBJECTS, reader=READERS[reader])
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    told, peak_mib = ended.stdout.splitlines()
    assert told == TOLD[reader]
    assert int(peak_mib) < MOST_MIB


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


def count(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(JSON)
def test_values_are_counted_from_above(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert count(value) <= n_values(text) == n_values(text.encode("utf-8", "surrogatepass"))
    assert loads(text, n_values(text)) == value
    with pytest.raises(TooManyValuesError):
        loads(text, n_values(text) - 1)


@given(st.lists(JSON) | st.dictionaries(st.text(), JSON), st.text(alphabet='{["}],\\ x'))
def test_where_a_value_ends(value: object, behind: str) -> None:
    text = json.dumps(value)
    found = extent(f" {text}{behind}", 1)
    assert found is not None
    assert found[0] == len(text) + 1
    assert found[1] >= count(value)
    assert extent(text[:-1], 0) is None


def test_a_job_that_is_too_large_costs_itself_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("collectors.history.rumen_trace.MAX_JOB_VALUES", 50)
    small, large = {"jobID": "job_1_0001"}, {"jobID": "job_1_0002", "x": list(range(60))}
    problems = ProblemLog("rumen")
    parser = RumenParser("trace", problems, 0)
    parser.parse(" ".join(json.dumps(told) for told in (small, large, {"jobID": "job_1_0003"})).encode())
    assert [told.job.job_id for told in parser.jobs] == ["job_1_0001", "job_1_0003"]
    assert [p.kind for p in problems.drain() if p.kind == "bad_record"] == ["bad_record"]
