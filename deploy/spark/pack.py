"""`python -m deploy.spark.pack [FOLDER]`: what executors on YARN need of clustercep, as archives for spark-submit.

clustercep.tar.gz   our packages (with their data files, so they are unpacked, not imported from a zip)
environment.tar.gz  a virtual environment with the third-party packages they import, for the Python of the nodes
kernels.tar.gz      the compiled matching kernels of this machine's processor
spark-jars.zip      Spark's own jars, with --with-spark: for spark.yarn.archive

The environment is that of the Python that runs this. Nodes need the same Python (version and place), as its
virtual environment refers to it; everything else comes along.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import numba
import pyspark
from packaging.requirements import Requirement

import engine

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "collectors", "app", "spark_jobs")
NEEDED = (
    "numpy", "pyarrow", "numba", "lark", "pandas", "protobuf", "pydantic", "pydantic-settings", "pyyaml", "rrdtool",
    "structlog", "typer", "rich", "sqlalchemy", "alembic", "tenacity", "requests", "defusedxml", "prometheus-client",
    "jinja2",
)  # fmt: skip
"""What our packages import on executors, and what these depend on is added. Spark brings its own Python package."""

DEFAULT_FOLDER = Path("build/spark")


class PackError(Exception):
    """What is to be packed is not there."""


def main(arguments: list[str] | None = None) -> int:
    """Write the archives; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.spark.pack", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--with-spark", action="store_true", help="also Spark's jars, once per version of Spark")
    parser.add_argument("--level", type=int, choices=range(10), default=6, help="of compression")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in pack(given.folder, with_spark=given.with_spark, level=given.level):
            print(f"{path}  {path.stat().st_size / 2**20:,.1f} MiB")
    except PackError as error:
        print(f"clustercep: {error}", file=sys.stderr)
        return 2
    return 0


def pack(folder: Path, *, with_spark: bool, level: int = 6) -> Iterator[Path]:
    """Write the archives one after the other; raises PackError."""
    yield _pack_packages(folder / "clustercep.tar.gz", level)
    yield _pack_environment(folder / "environment.tar.gz", level)
    yield _pack_kernels(folder / "kernels.tar.gz", level)
    if with_spark:
        yield _pack_spark(folder / "spark-jars.zip")


def closure(names: tuple[str, ...]) -> dict[str, Distribution]:
    """The installed distributions of these names and of all that they require here, by name."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise PackError(f"{name} is not installed beside this Python; run `make setup`") from None
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def _pack_packages(target: Path, level: int) -> Path:
    with tarfile.open(target, "w:gz", compresslevel=level) as archive:
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.add(path, str(path.relative_to(ROOT)))
    return target


def _pack_environment(target: Path, level: int) -> Path:
    """A virtual environment without scripts: bin/python leads to the Python of the nodes, its libraries are here."""
    home = Path(sys.base_prefix) / "bin"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    library = PurePosixPath("lib") / f"python{version}" / "site-packages"
    with tarfile.open(target, "w:gz", compresslevel=level) as archive:
        _add_text(archive, "pyvenv.cfg", f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n")
        for name in ("python", "python3"):
            _add_link(archive, f"bin/{name}", str(home / f"python{version}"))
        for found in closure(NEEDED).values():
            for file in found.files or ():
                path = Path(str(file.locate()))
                if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                    archive.add(path, str(library / PurePosixPath(*file.parts)))
    return target


def _pack_kernels(target: Path, level: int) -> Path:
    """As engine.kernels.compile.cache finds them; those that are not compiled here yet are."""
    engine.warm_kernels()
    sources = Path(engine.__file__).parent / "kernels"
    folder = Path(str(numba.config.CACHE_DIR))  # type: ignore[attr-defined]
    with tarfile.open(target, "w:gz", compresslevel=level) as archive:
        archive.add(folder / "complete", f"{folder.name}/complete")
        for path in sorted((folder / sources.name).rglob("*")):
            if path.suffix in (".nbi", ".nbc"):
                archive.add(path, f"{folder.name}/{path.relative_to(folder).as_posix()}")
    return target


def _pack_spark(target: Path) -> Path:
    """Stored as they are: jars are compressed already."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar")):
            archive.write(path, path.name)
    return target


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


if __name__ == "__main__":
    sys.exit(main())
