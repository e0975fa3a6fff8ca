"""`Forks`: runs each trial in a child of this process, so that none affects another."""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from tests.mutants.collected import Outcome
from tests.mutants.library import ROOT, plant
from tests.mutants.swap import Functions, NotSwappableError

if TYPE_CHECKING:
    import ast
    from collections.abc import Generator, Iterable, Mapping

    from tests.mutants.collected import Collected

__all__ = ["Forks", "Trial"]

AT_ONCE: Final = 2
_START_S: Final = 20.0  # a planted copy is compiled and imported
_BYTES: Final = 1 << 16  # more than an outcome has, and no more than a pipe holds


@attrs.frozen(eq=False)
class Trial:
    """Tests to be run against a mutant, or against the unchanged library.

    trees: the changed modules by their files; none for the unchanged library.
    tests: run one after another, up to the first that fails.
    limit_s: time after which the trial is killed; a mutant that hangs is caught.
    locked: True to test the locked kind of end.
    planted: True for a new process that imports the mutant, instead of a swap.
    """

    trees: Mapping[str, ast.Module]
    tests: tuple[str, ...]
    limit_s: float
    locked: bool = False
    planted: bool = False


@attrs.frozen(eq=False)
class _Child:
    trial: Trial
    pid: int
    process: int  # a descriptor that is readable when the process has ended
    result: int  # the end of a pipe
    folder: Path
    began: float


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

    def run(self, sources: Iterable[Generator[Trial, Outcome, None]]) -> None:
        """Run the trials that generators yield, and send them the outcomes."""
        waiting = iter(sources)
        owners: dict[_Child, Generator[Trial, Outcome, None]] = {}
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
        result, out = os.pipe()
        pid = os.fork()
        if not pid:
            self._in_child(trial, folder, out)
        os.close(out)
        process = os.pidfd_open(pid)
        child = _Child(trial, pid, process, result, folder, time.monotonic())
        self._running.append(child)
        return child

    def _ended(self) -> list[_Child]:
        """Wait until a child has ended, or its time; return those."""
        now = time.monotonic()
        ends = [child.began + child.trial.limit_s + _START_S for child in self._running]
        processes = [child.process for child in self._running]
        timeout = max(0.0, min(ends) - now) if ends else 0.0
        ready, _, _ = select.select(processes, [], [], timeout)
        now = time.monotonic()
        return [
            child
            for child, end in zip(self._running, ends, strict=True)
            if child.process in ready or now >= end
        ]

    def _reap(self, child: _Child) -> Outcome:
        """End a child with all that its tests have started; return the outcome."""
        late = not select.select([child.process], [], [], 0)[0]
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, status = os.waitpid(child.pid, 0)
        os.set_blocking(child.result, False)
        try:
            text = os.read(child.result, _BYTES)
        except BlockingIOError:
            text = b""
        os.close(child.result)
        os.close(child.process)
        self._running.remove(child)
        shutil.rmtree(child.folder, ignore_errors=True)
        if text:
            return Outcome(**json.loads(text))
        if late:
            return Outcome(failed=child.trial.tests[0])
        return Outcome(trouble=f"exit code {os.waitstatus_to_exitcode(status)}")

    def _in_child(self, trial: Trial, folder: Path, out: int) -> NoReturn:
        try:
            os.setsid()  # a group that can be killed with all that it starts
            nowhere = os.open(os.environ.get("MUT_DEBUG", os.devnull), os.O_RDWR | os.O_APPEND)
            for each in range(3):
                os.dup2(nowhere, each)
            os.close(nowhere)
            outcome = self._outcome(trial, folder, out)
        except BaseException:  # noqa: BLE001 # it is the end of the process
            outcome = Outcome(trouble=traceback.format_exc()[-4000:])
        os.write(out, json.dumps(attrs.asdict(outcome)).encode())
        os._exit(0)

    def _outcome(self, trial: Trial, folder: Path, out: int) -> Outcome:
        if trial.trees:
            folder.mkdir()
            plant(trial.trees, folder)
            path = [str(folder), str(ROOT)]
            os.environ["PYTHONPATH"] = os.pathsep.join(path)
            os.environ["PYTHONSAFEPATH"] = "1"  # for programs that tests start
            sys.path[:0] = path
        if trial.locked:
            os.environ["QUEUEBROKER_LOCKED"] = "1"
        planted = trial.planted or trial.locked
        if not planted:
            try:
                self._functions.swap(trial.trees) if trial.trees else None
            except NotSwappableError:
                planted = True
        if planted:
            os.set_inheritable(out, True)
            command = [sys.executable, "-m", "tests.mutants.trial", str(out)]
            os.execv(sys.executable, [*command, str(folder), *trial.tests])
        if self._tests.uses(trial.tests, "tests.links.real"):
            _restart_fork_server()
        return self._tests.run(trial.tests)


def _restart_fork_server() -> None:
    """Start a fork server of this process, which imports the mutant.

    A process cannot use that of its parent, and a test must not leave one behind.
    """
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    modules = server._preload_modules
    server.__init__()
    forkserver.set_forkserver_preload(modules)
    forkserver.ensure_running()
