"""The proof: the wheel in an environment of its own, without a folder of compiled kernels and without a compiler.

The environment takes the third-party packages of the one that runs this, by a line in a `.pth` file; the editable
installation there is not taken, since `.pth` files of folders that a `.pth` file names are not read. What it matches is
compared, letter by letter, with what the sources here match with kernels compiled for this processor.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from deploy.wheel.build import ROOT, clean_environment, run
from deploy.wheel.errors import WheelError

_NO_COMPILER = """
import numba.core.compiler


def refuse(*_):
    raise SystemError("the compiler is off")


numba.core.compiler.CompilerBase._compile_core = refuse
"""
"""`sitecustomize.py`: the one way that leads into Numba's compiler, closed for every process of the environment."""

_PROVES_OFF = """
import numba, numpy
try:
    numba.njit(lambda x: x + 1)(1)
except SystemError as error:
    print(error)
"""

_RISING = "SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 0 AND b[i].x >= b[i-1].x }"
QUERIES = {
    "listed": f"PATTERN {_RISING} WITHIN 40 RETURN avg(b[].x) AS mean",
    "sets": f"PATTERN {_RISING} WITHIN 30 OUTPUT SETS",
    "collapsed": f"PATTERN {_RISING} WITHIN 60 OUTPUT COLLAPSED",
    "counted": f"PATTERN {_RISING} WITHIN 90 OUTPUT COUNT",
    "top": f"PATTERN {_RISING} WITHIN 40 OUTPUT TOP 2 BY CONFIDENCE",
    "negated": "PATTERN SEQ(A a, !B n, C c) WHERE skip_till_any_match { [k] } WITHIN 60 RETURN a.x AS p, c.x AS q",
    "next": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] AND avg(b[].x) > 1.5 } WITHIN 90",
    "contiguous": "PATTERN SEQ(A a, B+ b[]) WHERE partition_contiguity { [k] } WITHIN 90",
    "nested": "PATTERN (SEQ(A a, !B n, C c))+ WHERE skip_till_next_match { [k] AND a.x > 0 AND c.x <= a.x } WITHIN 60",
}
_PRECISE = frozenset({"next", "contiguous", "nested"})
"""Those that ask which event comes next, which is defined over precise events alone."""

N_EVENTS = 6_000
"""More than are matched as Python where nothing is compiled."""


def check(wheel: Path) -> None:
    """Raises WheelError where the installed wheel compiles anything, or matches anything else."""
    with tempfile.TemporaryDirectory(prefix="clustercep-wheel-") as made:
        folder = Path(made)
        installed = _install(wheel, folder / "environment")
        cache = folder / "cache"
        environment = {**clean_environment(), "CLUSTERCEP_CACHE": str(cache)}
        off = run([str(installed / "python"), "-c", _PROVES_OFF], environment, folder=folder, read=True)
        if off.strip() != "the compiler is off":
            raise WheelError(f"the compiler is not off in {installed}")
        command = str(installed / "clustercep")
        print(run([command, "warm"], environment, folder=folder, read=True).strip())
        here = {**clean_environment(), "PYTHONPATH": str(ROOT), "CLUSTERCEP_KERNELS": "native"}
        n_runs, n_rows = 0, 0
        for width in (0, 4):
            file = events(folder / f"events-{width}.jsonl", width)
            for name, text in QUERIES.items():
                if width and name in _PRECISE:
                    continue
                query = folder / f"{name}.cep"
                query.write_text(text)
                arguments = ["match", str(query), str(file)]
                found = _matched([command, *arguments], environment, folder)
                wanted = _matched([sys.executable, "-m", "app.cli", *arguments], here, folder)
                if found != wanted:
                    raise WheelError(f"{name}, intervals of {width} ms: other rows than kernels compiled here give")
                n_runs, n_rows = n_runs + 1, n_rows + len(found.splitlines())
        kept = [path.name for path in cache.rglob("*.nb?")]
        if kept:
            raise WheelError(f"the installed wheel has compiled {', '.join(kept)}")
        print(
            f"{wheel.name}: {n_runs} queries without a compiler over {N_EVENTS:,} events, {n_rows:,} rows, "
            "each as kernels compiled for this processor give it."
        )


def _install(wheel: Path, environment: Path) -> Path:
    """The folder of the programs of a new environment with this wheel, in which Numba's compiler is off."""
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    programs = environment / "bin"
    pip = ("-m", "pip", "--python", str(programs / "python"), "install", "-q", "--disable-pip-version-check")
    run([sys.executable, *pip, "--no-deps", "--no-index", str(wheel)])
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "requirements.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (packages / "sitecustomize.py").write_text(_NO_COMPILER)
    return programs


def events(file: Path, width_ms: int, n_events: int = N_EVENTS) -> Path:
    """Events of three types and eight keys, every 3 ms on average; every second one may have happened later."""
    drawn = random.Random(width_ms)  # noqa: S311  # the same events in each build
    time_ms, lines = 0, []
    for n in range(n_events):
        time_ms += drawn.randrange(1, 6)
        event: dict[str, object] = {"event_id": f"e{n}", "type": drawn.choice("ABBC")}
        event |= {"t_lo_ms": time_ms, "t_hi_ms": time_ms + (width_ms if n % 2 else 0)}
        event |= {"k": drawn.randrange(8), "x": round(drawn.uniform(-1, 5), 3)}
        lines.append(json.dumps(event) + "\n")
    file.write_text("".join(lines))
    return file


def _matched(command: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in (0, 1):  # 1: no match
        raise WheelError(f"{' '.join(command)}: {done.stderr.strip()[-600:]}")
    return done.stdout


__all__ = ["QUERIES", "check", "events"]
