"""Rules for every test: it leaves nothing behind, it ends, it is repeatable.

Threads, descriptors and shared memory return to their former state after every test; a
test that hangs is ended with all stacks shown; Hypothesis draws the same examples in
every run unless ``--hypothesis-profile=night`` asks for more and others. An exception
in a thread fails the test: pytest warns of it, and warnings are errors.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hypothesis
import hypothesis.strategies
import pytest

from queuebroker import _net, _sync
from tests.depth import DEEP, among
from tests.kit.constants import restore_constants
from tests.leaks import Snapshot
from tests.watchdog import HANG_S, watchdog

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from xdist.workermanage import Producer, WorkerController

    from tests.workers import Shares

hypothesis.settings.register_profile(
    "ci",
    max_examples=among(15, 100),
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
)
hypothesis.settings.register_profile(
    "night", max_examples=10_000, deadline=None, print_blob=True
)
hypothesis.settings.register_profile(
    # The first failure counts: nobody reads the smallest example.
    "mutants",
    hypothesis.settings.get_profile("ci"),
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
hypothesis.settings.load_profile("ci")

_tests: Final = itertools.count(1)
_LEFT_OUT: Final = pytest.StashKey[int]()


@functools.cache
def _first_example() -> None:
    """Make what lasts as long as this thread, before the first snapshot.

    Hypothesis registers its random generator, and looks up its referrers. A search for
    referrers finds no frozen object; Hypothesis then warns, and a warning fails the
    test. Without the interpreter lock, a thread has a descriptor on which it sleeps.
    """
    _sync.sleep_lock()
    hypothesis.given(hypothesis.strategies.none())(lambda _: None)()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shares:
    """Share the tests among workers; without pytest-xdist this is never called."""
    from tests.workers import Shares  # noqa: PLC0415 # not without it

    return Shares(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collections, and let workers share the compilation."""
    gc.disable()
    try:
        if worker := getattr(session.config, "workerinput", None):
            from tests.workers import import_modules  # noqa: PLC0415 # not without it

            number, count = int(worker["workerid"][2:]), worker["workercount"]
            import_modules(session.config.rootpath, session.config.args, number, count)
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep tests marked ``deep`` for deep runs, and for a command that names a test.

    One worker runs all tests of the pipeline: they come first, since they take longest.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/pipeline/"))
    if DEEP or any("::" in each for each in config.args):
        return
    deep = [item for item in items if _is_deep(item)]
    config.hook.pytest_deselected(items=deep)
    items[:] = [item for item in items if not _is_deep(item)]
    config.stash[_LEFT_OUT] = len(deep)


def _is_deep(item: pytest.Item) -> bool:
    """Return True for a test with Spark, too: its session takes seconds to start."""
    return any(map(item.get_closest_marker, ("deep", "spark")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the number of tests left out to the process that began the workers."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Take the number of tests left out from a worker; each collects all tests."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)
    node.config.stash[_LEFT_OUT] = left_out


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a deep run adds."""
    if left_out := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{left_out} tests marked deep were left out, and most tests that explore"
            " schedules tried a fortieth of them: TEST_DEEP=1 pytest runs it all"
            " (TEST_DEEP=0.2: all tests, a fifth of the schedules)"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are processors: tests wait now and then."""
    return _net.processors() + 1


@pytest.fixture(autouse=True)
def own_run_directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Isolate the buses of a test, and of the programs it starts, from all others.

    It applies the other rules for every test as well: as fixtures of their own they
    would take half a millisecond more, ten thousand times.
    """
    _keep_small_heap()
    # Short, since socket paths have a limit. The process that opens a bus creates it.
    folder = Path(tempfile.gettempdir())
    mode = folder.stat().st_mode
    path = folder / f"qb-{os.getpid()}-{next(_tests)}"
    with _nothing_left_behind(request.node):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BUS_RUN_DIR", str(path))
            yield path
        restore_constants()
        shutil.rmtree(path, ignore_errors=True)
        # Other programs use it, too: without its sticky bit none of them could.
        assert folder.stat().st_mode == mode, f"a test has changed the mode of {folder}"


def _keep_small_heap() -> None:
    """Exempt the objects of earlier tests, and of imports, from every collection.

    Many tests collect garbage. With Spark, pandas and Matplotlib loaded, a third of the
    time of such tests was spent on objects that no test had made.
    """
    _first_example()
    gc.collect(1)
    gc.freeze()


@contextmanager
def _nothing_left_behind(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves a thread, a descriptor or shared memory behind.

    A Spark session and its Java process live from the first test marked ``spark`` to
    the end of the run, so those tests are exempt.
    """
    if item.get_closest_marker("spark"):
        yield
        return
    before, handled = Snapshot.take(), sys.exception()
    yield
    leaks = before.leaks()
    if (error := sys.exception()) is not handled:
        leaks.append(f"{error!r} still counts as being handled")
    if leaks:
        pytest.fail("left behind: " + "; ".join(sorted(leaks)), pytrace=False)


def _limit_s(item: pytest.Item) -> float:
    """Return the time limit of a test; more with Spark, which starts a dozen processes.

    An interrupted query leaves its session unusable: all later ones fail as well.
    """
    return HANG_S * (3 if item.get_closest_marker("spark") else 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Limit the time of the fixtures' set-up."""
    with watchdog(_limit_s(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Limit the time of the test itself."""
    with watchdog(_limit_s(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Limit the time of the fixtures' teardown."""
    with watchdog(_limit_s(item)):
        return (yield)
