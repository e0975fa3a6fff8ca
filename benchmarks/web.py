"""Suite ``web``: V1 and V2, the page about a bus, and its cost to the bus.

Four processes have 10,000 tasks, and send 1,000 commands a second to 600 of them. All
names are found before the measurement. V1 is the interval of two frames that Chromium
draws, without a screen, while the page shows them. V2 is the part of the processor time
of the four processes that the threads use which answer the page. The programs of the
page use the same processors, so a run without the page would show these, too.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.contest import Contest, Effort, Row, Values
from benchmarks.figure import OURS

if TYPE_CHECKING:
    from playwright.sync_api import Page

_BUS: Final = "web"
_PROCESSES: Final = 4
_TASKS: Final = 10_000
_PER_S: Final = 1000
_TICK_S: Final = 0.02
_ADDRESSEES: Final = 50  # of each process, for each other one
_LIMIT_MS: Final = 1000 / 30
_LIMIT_PERCENT: Final = 1.0
_CASE: Final = "10,000 tasks"
_LIMIT_S: Final = 60.0
_SETTLE_S: Final = 10.0  # the page begins with two reports of all tasks


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contest of both figures, or why there is none."""
    path = shutil.which("chromium")
    try:
        import playwright  # noqa: F401, PLC0415 - perhaps not installed
        import uvicorn  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        return [], [f"{error.name} is not installed: V1 and V2 left out"]
    if path is None:
        return [], ["chromium is not installed: V1 and V2 left out"]
    seconds = effort.round_s * 240  # more than between two whole reports
    rows = [
        Row("V1", _CASE, "ms/frame", {"limit": 1.0}, "frame", own=_own(_LIMIT_MS)),
        Row("V2", _CASE, "%", {"limit": 1.0}, "share", own=_own(_LIMIT_PERCENT)),
    ]
    return [Contest(rows, {OURS: partial(_watched, path, seconds)}, once=True)], []


def _own(limit: float) -> dict[str, Callable[[Values], float]]:
    return {"limit": lambda _: limit}


def _watched(path: str, seconds: float) -> Values:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - as above

    with _fleet() as fleet, _page() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        _until(page, "tasks", lambda tasks: tasks >= _TASKS)
        _until(page, "callbacks per s", lambda rate: rate > 0)
        time.sleep(_SETTLE_S)
        page.evaluate(
            """() => {
                window.frames_drawn = 0;
                const draw = () => {
                    window.frames_drawn++;
                    requestAnimationFrame(draw);
                };
                requestAnimationFrame(draw);
            }"""
        )
        before, begun = fleet.processor_s(), time.perf_counter()
        frames = page.evaluate("window.frames_drawn")
        time.sleep(seconds)
        frames = page.evaluate("window.frames_drawn") - frames
        passed = time.perf_counter() - begun
        used, answering = (
            now - then for now, then in zip(fleet.processor_s(), before, strict=True)
        )
        browser.close()
    return {
        "value": used / passed * 1000,
        "frame": passed / max(1, frames) * 1000,
        "share": answering / used * 100,
    }


def _until(page: Page, name: str, holds: Callable[[float], bool]) -> None:
    """Wait until a sum of the page is as it is to be."""
    until = time.monotonic() + _LIMIT_S
    cell = page.locator(f'#sums dd[data-sum="{name}"]')
    while not holds(float(cell.inner_text().replace(",", "") or 0)):
        if time.monotonic() > until:
            raise RuntimeError(f"{name} is {cell.inner_text()}")
        time.sleep(0.1)


class _Fleet:
    """The processes of the bus."""

    def __init__(self, programs: list[subprocess.Popen[str]]) -> None:
        self._programs: Final = programs

    def processor_s(self) -> tuple[float, float]:
        """Return the processor time so far, and that of the threads that answer."""
        for each in self._programs:
            _ask(each, "time")
        times = [json.loads(_line(each)) for each in self._programs]
        return sum(each[0] for each in times), sum(each[1] for each in times)


@contextmanager
def _fleet() -> Iterator[_Fleet]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="b"))
        os.environ["BUS_RUN_DIR"] = folder
        stack.callback(os.environ.pop, "BUS_RUN_DIR")
        programs: list[subprocess.Popen[str]] = []
        for number in range(_PROCESSES):
            code = [sys.executable, "-m", "benchmarks.web", str(number)]
            program = _start(code, stack)
            programs.append(program)
            _line(program)  # it has joined: the first one is master
        for each in programs:
            _ask(each, "go")
            _line(each)
        yield _Fleet(programs)


@contextmanager
def _page() -> Iterator[str]:
    with ExitStack() as stack:
        code = [sys.executable, "-m", "bus", "web", "--bus", _BUS]
        program = _start([*code, "--port", "0", "--json"], stack)
        found: Mapping[str, Any] = json.loads(_line(program))
        yield str(found["address"])


def _start(code: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    stack.callback(program.communicate)
    stack.callback(program.kill)
    return program


def _ask(program: subprocess.Popen[str], word: str) -> None:
    assert program.stdin is not None
    program.stdin.write(f"{word}\n")


def _line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    line = program.stdout.readline()
    if not line:
        raise RuntimeError(f"{program.args!r} has ended")
    return line


def _be_a_process(number: int) -> None:
    """Have a share of the tasks, and send a share of the commands, to the end."""
    from threading import Thread  # noqa: PLC0415 - for this program only

    from bus import open_bus  # noqa: PLC0415 - likewise
    from bus.features.watching.inspector import inspector_of  # noqa: PLC0415 - likewise

    own = _TASKS // _PROCESSES
    with open_bus(_BUS, process=f"p{number}") as bus:
        sender = bus.register(f"p{number}/sender")
        for task in range(own - 1):
            bus.register(f"p{number}/task/{task}", on_command=lambda _: None)
        print("joined", flush=True)
        sys.stdin.readline()
        names = [
            f"p{other}/task/{task * 11}"
            for task in range(_ADDRESSEES)
            for other in range(_PROCESSES)
            if other != number
        ]
        for name in names:
            bus.wait_for(name, _LIMIT_S)
            sender.command(name, b"")
        print("going", flush=True)

        def serve() -> None:
            for _ in sys.stdin:
                told = bus.call(inspector_of(bus.process), {"report": "brief"})
                print([told["processor_s"], told["inspector_s"]], flush=True)

        Thread(target=serve, daemon=True).start()
        addressees = itertools.cycle(names)
        at = time.monotonic()
        while True:
            for _ in range(round(_PER_S / _PROCESSES * _TICK_S)):
                sender.command(next(addressees), b"x" * 64)
            at += _TICK_S
            time.sleep(max(0.0, at - time.monotonic()))


if __name__ == "__main__":
    _be_a_process(int(sys.argv[1]))
