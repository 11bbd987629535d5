"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.examples import PROFILE, examples
from tests.turns import others, this_turn

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from app.replay.demo import DemoResult

# Compiling a kernel takes seconds once, so single examples have no deadline; failures print how to reproduce them.
# The default draws the same examples in every run; HYPOTHESIS_PROFILE=thorough draws many new ones.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(60),
)
settings.register_profile("thorough", parent=settings.get_profile("default"), derandomize=False)
settings.load_profile(PROFILE)

# A command under test leaves no process behind that compiles.
os.environ.setdefault("CLUSTERCEP_COMPILE", "first")

RECORDING = Path(__file__).parent / "fixtures" / "recording" / "minicluster.tar.xz"

MAIN = sys.modules["__main__"]

SHARED = Path(__file__).resolve().parents[2] / "shared"

OWN_THREADS = ("poll", "steps", "notify-", "ownership", "disown")
LEAVING_S = 5.0
"""One that hangs in a test is not waited for longer."""

_HERE = Path(__file__).parent
_CAMPAIGNS = (
    "spark",
    "kills",
    "soak",
    "watchdog",
    "two",
    "postgresql",
    "clock",
    "damage",
    "storm",
    "receivers",
)
SPARK = "spark"
"""The fixture that starts a JVM, and the group of the tests that need it."""
LONG_GROUPS = (
    SPARK,
    "demo",
    str(_HERE / "app/live/test_kills.py"),
    str(_HERE / "spark_jobs/test_interruption.py"),
    *(str(_HERE / f"torture/test_{name}.py") for name in _CAMPAIGNS),
    str(_HERE / "fuzz/test_costs.py"),
    str(_HERE / "test_patterns.py"),
)
"""Begun first, so that no worker still has minutes to go when the others have nothing left."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects are made that stay: there is no garbage to look for among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked `in_turn` those of this turn are left (`tests/turns.py`).

    Tests marked `external` are skipped where the shared real inputs are not beside the project.

    Tests of one file run in one process, and so do all that need the demo's run or the browser, and all that need a JVM
    or something of their module that others make with it: run, browser and JVM are made once. The groups that take
    longest come first.
    """
    if (turn := this_turn()) is not None and (left_out := others(items, turn)):
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    with_jvm: defaultdict[Path, set[str]] = defaultdict(set)
    for item in items:
        if SPARK in getattr(item, "fixturenames", ()):
            with_jvm[item.path] |= {SPARK, *_of_module(item)}
    places: dict[pytest.Item, int] = {}
    for item in items:
        if item.get_closest_marker("external") and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"{SHARED} is not there"))
        fixtures = set(getattr(item, "fixturenames", ()))
        group = "demo" if fixtures & {"demo", "chromium", "browser"} else str(item.path)
        if with_jvm[item.path] & {*fixtures & {SPARK}, *_of_module(item)}:
            group = SPARK
        item.add_marker(pytest.mark.xdist_group(group))
        places[item] = LONG_GROUPS.index(group) if group in LONG_GROUPS else len(LONG_GROUPS)
    items.sort(key=places.__getitem__)


def _of_module(item: pytest.Item) -> set[str]:
    """The fixtures that a test shares with others of its file."""
    found = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return {name for name, made in found.items() if made[-1].scope == "module"}


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays: it is never looked through again for garbage, as after each page's script.

    Without their groups tests would run all the same, in minutes more: each worker has its JVM, run and browser.
    """
    gc.collect()
    gc.freeze()
    if getattr(session.config.option, "loadgroup", False) and any("@" not in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist does not see the groups of the tests; expected versions that go together")


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Streamlit leaves the script of a page as `__main__`, which a process that is spawned later would begin with."""
    yield
    sys.modules["__main__"] = MAIN


@pytest.fixture(autouse=True)
def _threads_end_with_their_test() -> Iterator[None]:
    """A process does not wait for polls, steps and deliveries that it stops; what they log is of no other test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith(OWN_THREADS):
            thread.join(LEAVING_S)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded cluster, unpacked; nobody writes there."""
    from deploy.minicluster.recording import packing

    folder = tmp_path_factory.mktemp("recording") / "recording"
    packing.unpack(RECORDING, folder)
    return folder


@pytest.fixture(autouse=True)
def _logs_of_this_test_alone() -> None:
    """Commands configure the logs of their process; within the tests' process the next test shall hear all the same.

    Without colours, and errors as Python tells them: painting a traceback takes 16 ms, writing it 0.2 ms.
    """
    structlog.reset_defaults()
    told = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], told])


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    """`clustercep demo --once`, as shipped but for its folder; once for all tests, which only read what it leaves."""
    from rich.console import Console

    from app.config import load_settings
    from app.replay.demo import run_demo

    shipped = load_settings(Path(__file__).parents[1] / "config.yaml", {})
    folder = tmp_path_factory.mktemp("build") / "demo"
    own = shipped.model_copy(update={"demo": shipped.demo.model_copy(update={"directory": folder})})
    return run_demo(own, "max", Console(quiet=True))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's Chromium; to be asked for before what takes long."""
    from tests.chromium import chromium_or_skip

    return chromium_or_skip()


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One for all tests: Playwright can be started only once at a time. Each test opens a window of its own."""
    from tests.chromium import started

    with started(chromium) as opened:
        yield opened
