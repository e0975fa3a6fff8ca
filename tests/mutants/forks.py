"""`Forks`: runs each trial in a child of this process, so that none affects another."""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from queuebroker._files import resource
from tests.mutants.collected import Outcome
from tests.mutants.library import ROOT, plant
from tests.mutants.swap import Functions, NotSwappableError

if TYPE_CHECKING:
    import ast
    from collections.abc import Generator, Iterable, Mapping

    from tests.mutants.collected import Collected

    Trials = Generator["Trial", Outcome, None]

__all__ = ["NOT_SWAPPABLE", "Forks", "Trial"]

AT_ONCE: Final = 2
NOT_SWAPPABLE: Final = "only a planted copy can have this mutant"
_OUTCOME: Final = "outcome"
# A mutant may never stop appending. Without a limit the kernel would kill any process.
_MEMORY_BYTES: Final = 6 << 30
_START_S: Final = 60.0  # at most, until a new process has collected its tests


@attrs.frozen(eq=False)
class Trial:
    """Tests to be run against a mutant, or against the unchanged library.

    trees: the changed modules by their files.
    tests: run one after another, up to the first that fails.
    limit_s: time after which it is killed; the first test has failed then.
    planted: True for a new process that imports the mutant, instead of a swap.
    locked: True to test the locked kind of end, if planted.
    survey: True to run all tests, and to note the marked functions that they call.
    """

    trees: Mapping[str, ast.Module]
    tests: tuple[str, ...]
    limit_s: float
    planted: bool = False
    locked: bool = False
    survey: bool = False


@attrs.frozen(eq=False)
class _Child:
    trial: Trial
    pid: int
    process: int  # a descriptor that is readable when the process has ended
    folder: Path
    began: float

    @property
    def end(self) -> float:
        start_s = _START_S if self.trial.planted else 0.0
        return self.began + self.trial.limit_s + start_s


class Forks:
    """Forks this process for each trial, at most two at once.

    It must have one thread. A mutant is swapped into the functions of the child, and
    programs that the tests start import it from a planted copy.
    """

    def __init__(self, tests: Collected) -> None:
        self._tests: Final = tests
        self._functions: Final = Functions()
        self._folder: Final = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._count = 0
        self._running: list[_Child] = []
        gc.collect()
        gc.freeze()  # a collection in a child must not copy all that is inherited

    def close(self) -> None:
        """Kill what runs, and remove the planted copies."""
        for child in list(self._running):
            self._reap(child)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, sources: Iterable[Trials]) -> None:
        """Run the trials that generators yield, and send them the outcomes."""
        waiting = iter(sources)
        owners: dict[_Child, Trials] = {}
        while True:
            while len(self._running) < AT_ONCE and (source := next(waiting, None)):
                if (trial := next(source, None)) is not None:
                    owners[self._start(trial)] = source
            if not self._running:
                return
            for child in self._ended():
                source = owners.pop(child)
                try:
                    trial = source.send(self._reap(child))
                except StopIteration:
                    continue
                owners[self._start(trial)] = source

    def _start(self, trial: Trial) -> _Child:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        pid = os.fork()
        if not pid:
            self._in_child(trial, folder)
        child = _Child(trial, pid, os.pidfd_open(pid), folder, time.monotonic())
        self._running.append(child)
        return child

    def _ended(self) -> list[_Child]:
        """Wait until a child has ended, or its time; return those."""
        now = time.monotonic()
        processes = [child.process for child in self._running]
        timeout = max(0.0, min(child.end for child in self._running) - now)
        ready, _, _ = select.select(processes, [], [], timeout)
        now = time.monotonic()
        return [
            child
            for child in self._running
            if child.process in ready or now >= child.end
        ]

    def _reap(self, child: _Child) -> Outcome:
        """End a child with all that its tests have started; return the outcome."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        _, status = os.waitpid(child.pid, 0)
        os.close(child.process)
        self._running.remove(child)
        file = child.folder / _OUTCOME
        outcome = Outcome.read(file) if file.exists() else None
        shutil.rmtree(child.folder, ignore_errors=True)
        if outcome:
            return outcome
        if os.WIFSIGNALED(status):
            return Outcome(failed=child.trial.tests[:1])
        return Outcome(trouble=f"exit code {os.waitstatus_to_exitcode(status)}")

    def _in_child(self, trial: Trial, folder: Path) -> NoReturn:
        try:
            os.setsid()  # a group that can be killed with all that it starts
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
            nowhere = os.open(os.devnull, os.O_RDWR)
            for each in range(3):
                os.dup2(nowhere, each)
            os.close(nowhere)
            self._run(trial, folder)
        except NotSwappableError:
            Outcome(trouble=NOT_SWAPPABLE).write(folder / _OUTCOME)
        except BaseException:  # noqa: BLE001 # it is the end of the process
            Outcome(trouble=traceback.format_exc()[-4000:]).write(folder / _OUTCOME)
        os._exit(0)

    def _run(self, trial: Trial, folder: Path) -> NoReturn:
        if not trial.survey:
            plant(trial.trees, folder)
            path = [str(folder), str(ROOT)]
            os.environ["PYTHONPATH"] = os.pathsep.join(path)
            os.environ["PYTHONSAFEPATH"] = "1"  # for programs that tests start
            sys.path[:0] = path
        if trial.locked:
            os.environ["QUEUEBROKER_LOCKED"] = "1"
        if trial.planted:
            command = [sys.executable, "-m", "tests.mutants.trial"]
            command += [str(folder / _OUTCOME), *trial.tests]
            os.execv(sys.executable, command)
        self._functions.swap(trial.trees)
        if self._tests.uses(trial.tests, "tests.process.real"):
            _restart_fork_server()
        self._tests.run(trial.tests, folder / _OUTCOME, survey=trial.survey)


def _restart_fork_server() -> None:
    """Start a fork server of this process, which imports the mutant.

    A process cannot use that of its parent, and a test must not leave one behind.
    """
    server: Any = forkserver._forkserver
    modules = server._preload_modules
    server.__init__()
    forkserver.set_forkserver_preload(modules)
    forkserver.ensure_running()
