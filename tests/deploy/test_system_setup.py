"""The set-up scripts on a machine that lacks what they need and gives them no way to get it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALWAYS_THERE = ("bash", "cut", "dirname", "env", "sed", "sha256sum")


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A folder for PATH: neither dpkg nor apt nor a browser."""
    for name in ALWAYS_THERE:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def run(script: str, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEPLOY / script, *arguments], env={"PATH": str(path)}, capture_output=True, text=True, check=False, timeout=300
    )


def test_packages_that_cannot_be_installed_are_told_in_one_line(bare_machine: Path) -> None:
    done = run("setup/system-packages.sh", "one", "two", path=bare_machine)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install one two" in done.stderr


def test_what_some_tests_need_is_told_in_one_line_each_and_the_others_go_on(bare_machine: Path) -> None:
    done = run("setup/for-tests.sh", path=bare_machine)
    assert (done.returncode, done.stdout) == (0, "")
    told = dict(line.removeprefix("no ").split(", its tests are skipped: ") for line in done.stderr.splitlines())
    needed = {
        "Chromium": "chromium",
        "rrdtool": "rrdtool",
        "libfaketime": "faketime",
        "Alertmanager": "prometheus-alertmanager",
        "rrdcached": "rrdcached",
    }
    for what, package in needed.items():
        assert told.pop(what).startswith(f"clustercep needs the system packages: {package}")
    assert told.keys() <= {"PostgreSQL", "gmond", "KDC"}  # which are looked for beside the PATH


@pytest.mark.parametrize(
    ("program", "told"), [("chromium", "Chromium"), ("rrdtool", "rrdtool"), ("faketime", "libfaketime")]
)
def test_a_program_from_elsewhere_will_do(bare_machine: Path, program: str, told: str) -> None:
    (bare_machine / program).symlink_to("/bin/true")
    done = run("setup/for-tests.sh", path=bare_machine)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr
    assert told not in done.stderr


def test_a_machine_without_the_cluster_and_without_apt_is_told_so_at_once(bare_machine: Path, tmp_path: Path) -> None:
    done = run("minicluster/install.sh", str(tmp_path / "lib"), path=bare_machine)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("clustercep needs the system packages: ganglia-monitor gmetad rrdtool iproute2")
    assert done.stderr.count("\n") == 1
