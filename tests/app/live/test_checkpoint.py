"""Checkpoint files: what is written when, what is refused, what is removed, whatever moment the process dies at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from app.alerting.recording.episodes import CreatedAlert
from app.errors import CheckpointError
from app.live import checkpoint as module
from app.live.checkpoint import Checkpoint, CheckpointFolder
from app.store.models import CheckpointRow


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def table(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def of(number: int, lasting: dict[str, pa.Table]) -> Checkpoint:
    return Checkpoint(number, {"t": table(number)}, {"n": number}, lasting)


def plain(found: Checkpoint) -> tuple[Any, ...]:
    return (
        found.number,
        {name: t.to_pydict() for name, t in found.tables.items()},
        found.state,
        {name: t.to_pydict() for name, t in found.lasting.items()},
    )


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("lasting-*")}


def test_checkpoints_of_another_database_are_refused_until_they_are_forgotten(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "live", durable=True)
    folder.refuse_without_row()
    folder.write(of(1, {"a": table(1)}), 0)
    folder.refuse_without_row()  # a process died in its first step
    folder.write(of(2, {"a": table(1)}), 0)
    with pytest.raises(
        CheckpointError, match=r"checkpoint-000000000002\.arrow is of a database that is not there.*--forg"
    ):
        CheckpointFolder(tmp_path, "live").refuse_without_row()
    folder.forget()
    assert list(tmp_path.iterdir()) == []
    CheckpointFolder(tmp_path / "none", "live").forget()
    folder.refuse_without_row()


def test_a_lasting_table_is_written_once(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "live", durable=True)
    first, second = table(1, 2), table(3)
    folder.write(of(1, {"a": first}), 0)
    before = stamps(tmp_path)
    row = folder.write(of(2, {"b": first, "c": second}), 0)
    assert {name: stamps(tmp_path)[name] for name in before} == before
    assert plain(folder.read(row)) == plain(of(2, {"b": first, "c": second}))
    # A new process knows by the digests what is there, though its tables are other objects.
    again = CheckpointFolder(tmp_path, "live", durable=True)
    before = stamps(tmp_path)
    again.write(of(3, dict(again.read(row).lasting)), 0)
    again.write(of(4, {"a": table(1, 2)}), 0)
    assert stamps(tmp_path) == before


def test_a_lasting_file_that_somebody_removed_is_written_again(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "live", durable=False)
    lasting = {"a": table(1)}
    folder.write(of(1, lasting), 0)
    (file,) = tmp_path.glob("lasting-*")
    file.unlink()
    row = folder.write(of(2, lasting), 0)
    assert plain(CheckpointFolder(tmp_path, "live").read(row)) == plain(of(2, lasting))


def test_what_an_earlier_process_left_is_not_trusted(tmp_path: Path) -> None:
    lasting = {"a": table(1)}
    CheckpointFolder(tmp_path, "live", durable=False).write(of(1, lasting), 0)
    (file,) = tmp_path.glob("lasting-*")
    file.write_bytes(b"")  # a power cut
    row = CheckpointFolder(tmp_path, "live", durable=False).write(of(1, lasting), 0)
    assert plain(CheckpointFolder(tmp_path, "live").read(row)) == plain(of(1, lasting))


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_damaged_lasting_file_is_refused(tmp_path: Path, harm: str) -> None:
    row = CheckpointFolder(tmp_path, "live", durable=False).write(of(1, {"a": table(1, 2, 3)}), 0)
    (file,) = tmp_path.glob("lasting-*")
    if harm == "changed":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    else:
        file.unlink()
    expected = "not what was written" if harm == "changed" else "cannot be read"
    with pytest.raises(CheckpointError, match=rf"{file.name}: .*{expected}.*--forget-position"):
        CheckpointFolder(tmp_path, "live").read(row)


def test_another_version_is_refused(tmp_path: Path) -> None:
    row = CheckpointFolder(tmp_path, "live", durable=False).write(of(1, {}), 0)
    row.version = 3
    with pytest.raises(CheckpointError, match=r"version 3; expected 2; .*--forget-position"):
        CheckpointFolder(tmp_path, "live").read(row)


def test_version_1_can_be_read(tmp_path: Path) -> None:
    row = CheckpointFolder(tmp_path, "live", durable=False).write(of(1, {}), 0)
    with ipc.open_file(tmp_path / row.file) as file:
        content = file.read_all()
    without = {name: value for name, value in content.schema.metadata.items() if name != b"lasting"}
    with ipc.new_file(tmp_path / row.file, content.schema.with_metadata(without)) as writer:
        writer.write_table(content)
    row.digest = module._digest((tmp_path / row.file).read_bytes())
    with pytest.raises(CheckpointError, match="not a checkpoint: b'lasting'"):
        CheckpointFolder(tmp_path, "live").read(row)
    row.version = 1
    assert plain(CheckpointFolder(tmp_path, "live").read(row)) == plain(of(1, {}))


def test_files_that_are_not_its_own_stay(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "live", durable=False)
    ours = [f"lasting-{'0' * 64}.arrow", f"lasting-{'1' * 64}.arrow.part", "checkpoint-000000000009.arrow"]
    foreign = ["lasting-1.arrow", "notes.txt"]
    for name in (*ours, *foreign):
        (tmp_path / name).write_bytes(b"")
    folder.write(of(1, {"a": table(1)}), 0)
    folder.tidy(2)  # of another process, of which this one knows nothing
    assert {path.name for path in tmp_path.iterdir()} >= {*ours, *foreign}
    folder.tidy(1)
    left = {path.name for path in tmp_path.iterdir()}
    assert left >= {*foreign, "checkpoint-000000000001.arrow"}
    assert left.isdisjoint(ours)
    assert len(left) == 4


@given(
    st.lists(st.tuples(st.sampled_from(["commit", "refuse", "kill", "tidied"]), st.integers(0, 9)), max_size=12),
)
def test_whatever_moment_it_dies_at_the_committed_one_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int]]
) -> None:
    """Each step adds a lasting table or drops one; the oracle is what the last commits held."""
    path = tmp_path_factory.mktemp("checkpoints")
    folder = CheckpointFolder(path, "live", durable=False)
    row: CheckpointRow | None = None
    expected, number, lasting = None, 0, dict[str, pa.Table]()
    committed: list[tuple[CheckpointRow, Checkpoint]] = []
    for outcome, choice in script:
        lasting = {**lasting, f"l{choice}": table(choice, number)} if choice % 3 else dict(list(lasting.items())[1:])
        wanted = of(number + 1, lasting)
        if outcome == "kill":
            with dying_at(choice % 3), suppress(Killed):
                folder.write(wanted, 0)
        else:
            written = folder.write(wanted, 0)
            if outcome != "refuse":
                row, expected, number = written, wanted, number + 1
                committed.append((written, wanted))
            if outcome == "tidied":
                folder.tidy(number)
                kept = committed[-module.KEPT :]
                tables = set().union(*(named(checkpoint.lasting) for _, checkpoint in kept))
                assert {file.name for file in path.glob("lasting-*")} == tables
                for of_kept, checkpoint in kept:
                    assert plain(CheckpointFolder(path, "live").read(of_kept)) == plain(checkpoint)
        if outcome in ("kill", "refuse"):
            folder = CheckpointFolder(path, "live", durable=False)
            if row is not None and expected is not None:
                found = folder.read(row)
                assert plain(found) == plain(expected)
                folder.tidy(number)
                lasting = dict(found.lasting)
            else:
                lasting = {}
    if row is not None and expected is not None:
        assert plain(CheckpointFolder(path, "live").read(row)) == plain(expected)


def named(lasting: Mapping[str, pa.Table]) -> set[str]:
    return {f"lasting-{module._digest(module._stream(t))}.arrow" for t in lasting.values()}


class dying_at:  # noqa: N801  # reads as a statement
    """The process dies instead of writing its file number `n`."""

    def __init__(self, n: int) -> None:
        self._left = n
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        write = module._write_atomically

        def writing(path: Path, data: pa.Buffer, *, durable: bool) -> None:
            if self._left == 0:
                path.with_name(path.name + ".part").write_bytes(b"half")
                raise Killed
            self._left -= 1
            write(path, data, durable=durable)

        self._patch.setattr(module, "_write_atomically", writing)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def told(*numbers: int) -> list[CreatedAlert]:
    return [CreatedAlert(f"id{n}", "slow", "h1", '{"task_id":"é\\n"}', n, n + 1) for n in numbers]


def test_alerts_of_a_further_transaction_are_put_behind_those_before(tmp_path: Path) -> None:
    """A step of thousands of alerts has hundreds: all of them anew would be quadratic."""
    folder = CheckpointFolder(tmp_path, "live")
    folder.note(4, told(0))
    folder.note(5, told(1, 2))
    (path,) = tmp_path.glob("told-*5.json")
    before = path.stat().st_ino, path.read_bytes()
    folder.note(5, told(3), more=True)
    folder.note(5, [], more=True)
    assert path.stat().st_ino == before[0]
    assert path.read_bytes().startswith(before[1])
    assert folder.created_after(4) == told(1, 2, 3)
    folder.note(5, told(4))
    assert folder.created_after(4) == told(4)


def test_alerts_that_were_not_written_to_their_end_hide_no_others(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "live", durable=False)
    folder.note(5, told(1))
    folder.note(5, told(2), more=True)
    (path,) = tmp_path.glob("told-*5.json")
    path.write_bytes(path.read_bytes()[:-3])
    assert folder.created_after(4) == told(1)
    folder.note(5, told(2, 3), more=True)
    assert folder.created_after(4) == told(1, 2, 3)


def test_alerts_of_before_are_read(tmp_path: Path) -> None:
    (tmp_path / "told-000000000005.json").write_text(
        '[["id1", "slow", "h1", "{}", 1, 2], ["id2", "slow", "h1", "{}", 3, 4]]'
    )
    assert [alert.id for alert in CheckpointFolder(tmp_path, "live").created_after(4)] == ["id1", "id2"]
