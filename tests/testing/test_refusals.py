"""Objects that cannot be controlled raise one clear error, in tasks only."""

from __future__ import annotations

import _thread
import concurrent.futures
import contextlib
import multiprocessing
import os
import queue
import select
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import FailureKind, UncontrolledError, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

USES: dict[str, Callable[[], object]] = {
    "queue.SimpleQueue": lambda: queue.SimpleQueue[int]().get(timeout=0),
    "socket.socket": lambda: socket.create_connection(("localhost", 1)),
    "select.select": lambda: select.select([], [], [], 0),
    "select.poll": lambda: select.poll().poll(0),
    "select.epoll": lambda: select.epoll().close(),
    "subprocess.Popen": lambda: subprocess.run([sys.executable, "-V"], check=True),
    "os.fork": lambda: os.fork() or os._exit(0),
    "_thread.start_new_thread": lambda: _thread.start_new_thread(print, ()),
    "multiprocessing.Process": lambda: multiprocessing.Process(target=print).start(),
    "ThreadPoolExecutor": lambda: concurrent.futures.ThreadPoolExecutor(1),
}
# Other systems than Linux lack some of these calls.
for _module in (os, select):
    for _name in [each for each in USES if each.startswith(f"{_module.__name__}.")]:
        if not hasattr(_module, _name.partition(".")[2]):
            del USES[_name]


@pytest.mark.parametrize("name", USES)
def test_it_is_refused_by_name(name: str) -> None:
    with pytest.raises(UncontrolledError) as caught:
        explore(lambda run: USES[name](), seed=1)

    failure = caught.value
    assert failure.kind is FailureKind.UNCONTROLLED
    first_line = failure.story.splitlines()[0]
    assert first_line.startswith("uncontrolled: ")
    assert name in first_line
    assert "cannot be explored" in first_line
    assert "test_refusals.py" in failure.story


def test_the_explorer_reports_a_refusal_that_the_program_swallows() -> None:
    def program(run: Run) -> None:
        with contextlib.suppress(Exception):
            socket.create_connection(("localhost", 1))
        run.sleep(1)

    with pytest.raises(UncontrolledError, match=r"socket\.socket cannot be explored"):
        explore(program, seed=1)


def test_classes_can_be_asked_about_as_ever() -> None:
    real = queue.SimpleQueue[int]()

    def program(_run: Run) -> None:
        assert isinstance(real, queue.SimpleQueue)
        assert queue.SimpleQueue[int] is not None
        assert queue.SimpleQueue.__name__ == "SimpleQueue"
        assert issubclass(socket.socket, object)

    explore(program, bound=0, random=0)


def test_all_is_as_before_afterwards() -> None:
    def refused() -> list[object]:
        return [
            queue.SimpleQueue,
            socket.socket.__init__,
            select.select,
            subprocess.Popen.__init__,
            getattr(os, "fork", None),
            _thread.start_new_thread,
        ]

    before = refused()

    explore(lambda run: None, bound=0, random=0)

    assert refused() == before
