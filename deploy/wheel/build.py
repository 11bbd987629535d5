"""The wheel: sources, data files and compiled kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.wheel.errors import WheelError
from deploy.wheel.kernels import pack
from deploy.wheel.levels import numba_environment
from engine.kernels.compile.portable import FOLDER, SOURCES

ROOT = Path(__file__).parents[2]
_OUT = ROOT / "build" / "wheel"
"""Where wheels are made."""

KERNELS = _OUT / "kernels"
"""What was compiled for a wheel, for the next one."""

_PARTS = ("app", "collectors", "dashboard", "engine", "spark_jobs", "requirements", "pyproject.toml", "README.md")
_TAGS = ("--python-tag", f"cp3{sys.version_info.minor}", "--abi-tag", f"cp3{sys.version_info.minor}")
_WHERE = "import engine.kernels, numba; print(numba.config.CACHE_DIR)"


def build(level: str, out: Path = _OUT) -> Path:
    """Compile the kernels for this level and make a wheel of them and the sources in `out`.

    Raises WheelError where kernels are not compiled, or the wheel is not made.
    """
    tree = out / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    _copy_sources(tree)
    kept = _compile(tree, KERNELS, level)
    portable = tree / FOLDER.relative_to(ROOT)
    n_kernels = pack(kept, tree / SOURCES.relative_to(ROOT), level, portable)
    size = sum(file.stat().st_size for file in portable.iterdir())
    print(f"{n_kernels} kernels are compiled for {level}, {size / 2**20:.1f} MiB.")
    for old in out.glob("*.whl"):
        old.unlink()
    python = (sys.executable, "-m")
    pip = ("pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    run([*python, *pip, "-w", str(out), str(tree)])
    (made,) = out.glob("*.whl")
    # Machine code for one Python on one system, which setuptools cannot tell of data files.
    run([*python, "wheel", "tags", "--remove", *_TAGS, "--platform-tag", _platform_tag(), str(made)])
    (wheel,) = out.glob("*.whl")
    return wheel


def _copy_sources(tree: Path) -> None:
    tree.mkdir(parents=True)
    for name in _PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, tree / name)
    shutil.rmtree(tree / FOLDER.relative_to(ROOT), ignore_errors=True)


def _compile(tree: Path, kept: Path, level: str) -> Path:
    """The folder with the kernels of these sources, compiled for this level."""
    environment = {
        **clean_environment(),
        **numba_environment(level),
        "CLUSTERCEP_CACHE": str(kept),
        "PYTHONPATH": str(tree),
    }
    run([sys.executable, "-m", "app.cli", "warm"], environment, folder=tree)
    return Path(run([sys.executable, "-c", _WHERE], environment, folder=tree, read=True).strip())


def _platform_tag() -> str:
    system = os.uname()
    return f"{system.sysname}_{system.machine}".lower()


def clean_environment() -> dict[str, str]:
    """This process's, without what would change how kernels are compiled, or which."""
    ours = ("NUMBA_", "CLUSTERCEP_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(
    command: list[str], environment: Mapping[str, str] | None = None, *, folder: Path | None = None, read: bool = False
) -> str:
    """What a program prints, where it is to be read; raises WheelError where it fails."""
    done = subprocess.run(  # noqa: S603  # programs of this project's own environment
        command, cwd=folder, env=environment, stdout=subprocess.PIPE if read else None, text=True, check=False
    )
    if done.returncode != 0:
        raise WheelError(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout or ""


__all__ = ["KERNELS", "ROOT", "build", "clean_environment", "run"]
