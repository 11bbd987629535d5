"""What a wheel takes of a folder of compiled kernels; that the whole of it works is what `make wheel` ends with."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from deploy.wheel.build import clean_environment
from deploy.wheel.check import QUERIES, events
from deploy.wheel.errors import WheelError
from deploy.wheel.kernels import pack
from deploy.wheel.levels import LEVELS, numba_environment
from engine.kernels.compile.portable import INDEX, content_hash, versions

LEVEL = "x86-64-v3"
PROCESSOR = (versions()["system"], LEVEL, numba_environment(LEVEL)["NUMBA_CPU_FEATURES"])


def keep(folder: Path, module: str, entries: dict[tuple[str, ...], bytes], processor: object = PROCESSOR) -> None:
    """As Numba does; types are told apart by their names."""
    index = folder / "kernels" / f"{module}-12.py311.nbi"
    index.parent.mkdir(parents=True, exist_ok=True)
    named = {types: f"{Path(module).name}-12.py311.{n}.nbc" for n, types in enumerate(entries, start=1)}
    for types, name in named.items():
        (index.parent / name).write_bytes(entries[types])
    told = {(types, processor, ("", "")): name for types, name in named.items()}
    index.write_bytes(pickle.dumps("0.1") + pickle.dumps(("stamp", told)))


def test_each_kernel_is_named_by_where_it_is_and_its_types(tmp_path: Path) -> None:
    keep(tmp_path, "runs/advance.step", {("int64",): b"1", ("int64", "float64"): b"2"})
    keep(tmp_path, "decode.widen", {("int64",): b"3"})
    (tmp_path / "sources").mkdir()
    out = tmp_path / "portable"
    assert pack(tmp_path, tmp_path / "sources", LEVEL, out) == 3
    told = json.loads((out / INDEX).read_text())
    assert told["kernels"] == {
        "engine.kernels.decode.widen(int64)": content_hash(b"3"),
        "engine.kernels.runs.advance.step(int64)": content_hash(b"1"),
        "engine.kernels.runs.advance.step(int64, float64)": content_hash(b"2"),
    }
    assert (out / content_hash(b"2")).read_bytes() == b"2"
    assert (told["level"], told["features"]) == (LEVEL, list(LEVELS[LEVEL]))


def test_code_for_another_processor_is_refused(tmp_path: Path) -> None:
    keep(tmp_path, "decode.widen", {("int64",): b"3"}, (PROCESSOR[0], "znver4", "+avx512f"))
    with pytest.raises(WheelError, match=r"decode\.widen\(int64\) is compiled for znver4, expected x86-64-v3"):
        pack(tmp_path, tmp_path, LEVEL, tmp_path / "portable")


def test_types_that_cannot_be_told_apart_by_name_are_refused(tmp_path: Path) -> None:
    entries = {("int64", "int64"): b"1", ("int64, int64",): b"2"}
    keep(tmp_path, "decode.widen", entries)
    with pytest.raises(
        WheelError, match=r"two compiled kernels are called engine\.kernels\.decode\.widen\(int64, int64\)"
    ):
        pack(tmp_path, tmp_path, LEVEL, tmp_path / "portable")


def test_the_caller_s_settings_do_not_change_what_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NUMBA_CPU_NAME", "CLUSTERCEP_CACHE", "PYTHONPATH", "KEPT"):
        monkeypatch.setenv(name, "x")
    assert {"NUMBA_CPU_NAME", "CLUSTERCEP_CACHE", "PYTHONPATH", "KEPT"} & clean_environment().keys() == {"KEPT"}


def test_each_level_has_what_the_one_below_has() -> None:
    assert set(LEVELS["x86-64-v2"]) < set(LEVELS["x86-64-v3"])


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_of_the_proof_has_matches(name: str, tmp_path: Path) -> None:
    query = tmp_path / f"{name}.cep"
    query.write_text(QUERIES[name])
    found = CliRunner().invoke(cli, ["match", str(query), str(events(tmp_path / "events.jsonl", 0, 300))])
    assert found.exit_code == 0, found.output
    assert found.stdout.count("\n") > 1
