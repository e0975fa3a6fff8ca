"""Stories as a reader sees them. They are pinned whole, so that they are looked at."""

from __future__ import annotations

import re
import textwrap
import threading
from typing import TYPE_CHECKING

import pytest

import queuebroker
from queuebroker.testing import Failure, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _told(program: Callable[[Run], object], **options: int) -> str:
    """The story, with the numbers of lines in this file taken out."""
    with pytest.raises(Failure) as caught:
        explore(program, random=0, **options)
    return re.sub(r"tests/testing/(test_story)\.py:\d+", r"\1", caught.value.story)


def _expected(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_a_lost_wake_up() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        items: list[str] = []

        def get() -> None:
            if not items:
                with condition:
                    condition.wait_for(lambda: items)

        def put() -> None:
            items.append("apple")
            with condition:
                condition.notify()

        run.spawn(get)
        run.spawn(put)
        run.join()

    # The fault: `items` is changed outside of the lock, but nothing sees that here.
    explore(program, bound=0, random=0)


def test_a_wake_up_that_comes_too_early() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        items: list[str] = []

        def get() -> None:
            with condition:
                empty = not items
            if empty:
                with condition:
                    condition.wait()

        def put() -> None:
            with condition:
                items.append("apple")
                condition.notify()

        run.spawn(get)
        run.spawn(put)
        run.join()

    assert _told(program) == _expected("")


def test_a_deadlock() -> None:
    def program(run: Run) -> None:
        left = threading.Lock()
        right = threading.Lock()

        def forward() -> None:
            with left, right:
                pass

        def backward() -> None:
            with right:
                with left:
                    pass

        run.spawn(forward)
        run.spawn(backward)

    assert _told(program) == _expected("")


def test_an_exception_after_a_timeout() -> None:
    def program(run: Run) -> None:
        event = threading.Event()

        def wait() -> None:
            if not event.wait(timeout=5):
                raise TimeoutError("nobody came")

        run.spawn(wait)
        run.spawn(event.set)

    assert _told(program) == _expected("")


def test_library_functions_are_named_at_the_users_line() -> None:
    def program(run: Run) -> None:
        server = queuebroker.QueueBroker("server")
        run.spawn(server.accept, 1, name="acceptor")

    assert _told(program) == _expected("")
