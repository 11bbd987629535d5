"""Damaged files of an event store and of a stream's checkpoint: what reads one names it and fails, or is not harmed."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.torture.spark.inputs import MASTER, Waiting
from tests.torture.spark.lives import Life, Spark
from tests.torture.spark.tally import Tally, found_by

DAMAGE = ("changed", "cut", "removed")
QUERY = (
    "PATTERN SEQ(JobStart a, JobEnd b)\nWHERE skip_till_next_match { [job_id] }\nWITHIN 1 hour\n"
    "RETURN a.job_id, a.user, b.status\n"
)

Damaged = Callable[[str], None]
"""One file is damaged in this way, and what reads it is run."""


def damage_all(spark: Spark, sorts: list[tuple[str, Damaged]], until_s: float) -> None:
    """One file at a time: of each sort once, then in the other ways while there is time."""
    ways = [spark.drawn.sample(DAMAGE, len(DAMAGE)) for _ in sorts]
    for turn in range(len(DAMAGE)):
        for (_, damaged), kinds in zip(sorts, ways, strict=True):
            if turn == 0 or time.monotonic() < until_s:
                damaged(kinds[turn])


def damaged_store(tally: Tally, spark: Spark, folder: Path, store: Path) -> Iterator[tuple[str, Damaged]]:
    """By sort of file of the event store: the next query says which file it is, or gives all rows."""
    query, sound, out = folder / "q.cep", folder / "sound", folder / "rows.jsonl"
    query.write_text(QUERY, encoding="utf-8")
    shutil.copytree(store, sound)
    words = ["query", str(query), f"--store={store}", MASTER, "--format=jsonl", f"--out={out}"]
    tally.succeeded("query", spark.whole(words))
    expected = sorted(out.read_text(encoding="utf-8").splitlines())
    tally.expect(bool(expected), "query: no row")
    data = sorted((sound / "data").glob("date=*/type=JobStart/*.parquet"))
    commits = sorted(filter(is_state, (sound / "_commits").iterdir()))

    def damaged(sort: str, target: Path, kind: str) -> None:
        shutil.rmtree(store)
        shutil.copytree(sound, store)
        out.unlink(missing_ok=True)
        damage(spark.drawn, store / target.relative_to(sound), kind)
        told_or_harmless(
            tally, spark.whole(words), sort, target, kind,
            lambda: sorted(out.read_text(encoding="utf-8").splitlines()) == expected,
        )  # fmt: skip

    for sort, targets in (("Parquet", data), ("commit", commits[-1:]), ("commit", commits)):
        yield sort, partial(damaged, sort, spark.drawn.choice(targets))


def damaged_checkpoint(tally: Tally, spark: Spark, files: Waiting, name: str) -> Iterator[tuple[str, Damaged]]:
    """By sort of file of a stream's checkpoint, the newest one: it says which, or goes on rightly."""
    home, sound = files.folder / name, files.folder / "sound"
    shutil.copytree(home, sound)
    words = files.words(name)
    tally.expect(files.grow(), "no file is left that a stream with a damaged checkpoint could read")
    tally.succeeded("stream", spark.whole(words))
    expected = found_by(home)
    newest: dict[str, Path] = {}
    inside = filter(is_state, (sound / "checkpoint").rglob("*"))
    for path in sorted(inside, key=lambda path: (path.stat().st_mtime_ns, path)):
        newest[sort_of(path.relative_to(sound))] = path

    def damaged(sort: str, target: Path, kind: str) -> None:
        shutil.rmtree(home)
        shutil.copytree(sound, home)
        damage(spark.drawn, home / target.relative_to(sound), kind)
        told_or_harmless(tally, spark.whole(words), sort, target, kind, lambda: found_by(home) == expected)

    for sort, target in newest.items():
        yield sort, partial(damaged, sort, target)


def is_state(path: Path) -> bool:
    """Whether it is a file of its own, not the checksum of another."""
    return path.is_file() and not path.name.startswith(".")


def sort_of(path: Path) -> str:
    """What is written alike: the folder's words and the suffix."""
    return "/".join(part for part in path.parent.parts if not part.isdigit()) + path.suffix


def damage(drawn: random.Random, target: Path, kind: str) -> None:
    """Change some bytes of a file, cut it, or remove it; the checksum beside it stays as it was."""
    if kind == "removed":
        target.unlink()
        return
    content = bytearray(target.read_bytes())
    if kind == "cut":
        content = content[: len(content) // 2]
    else:
        for at in drawn.sample(range(len(content)), min(64, len(content))):
            content[at] ^= 0xFF
    target.chmod(0o600)
    target.write_bytes(content)


def told_or_harmless(
    tally: Tally, life: Life, sort: str, target: Path, kind: str, is_right: Callable[[], bool]
) -> None:
    """A command over a damaged file fails and names it, or does what it would have done."""
    tally.damaged[sort] += 1
    said = life.told.strip()
    if life.code == 0:
        tally.expect(is_right(), f"{target} {kind}: no error, and another result")
        return
    # A checkpoint is restored as a whole: its folder is enough.
    is_named = f"{target.parent.name}/{target.name}" in said or ("checkpoint" in target.parts and "/checkpoint" in said)
    tally.named[sort] += is_named
    tally.expect(is_named, f"{target} {kind}: the message does not name it: {said[-400:]}")
    tally.expect("Traceback" not in said, f"{target} {kind}: a traceback: {said[-400:]}")
