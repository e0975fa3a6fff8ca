"""`Event` by a pipe, as on macOS."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from queuebroker import _net, _platform
from queuebroker.waiting.event import Event
from tests.kit.systems import needs_fork

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    _platform.SYSTEM == "windows", reason="Windows waits for sockets alone"
)


@pytest.fixture
def event(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Yield an event that is not set."""
    monkeypatch.setattr("queuebroker.waiting.event._HAS_EVENTFD", False)
    made = Event()
    yield made
    made.close()


def is_set(event: Event) -> bool:
    """Return whether the descriptor of an event is readable."""
    return bool(_net.wait_to_read_any([event.fd], 0))


def test_an_event_that_was_set_often_is_cleared_at_once(event: Event) -> None:
    for _ in range(100_000):  # more than a pipe holds
        event.set()
    assert is_set(event)
    event.clear()
    assert not is_set(event)

    with pytest.raises(BlockingIOError):
        event.clear()
    event.set()
    assert is_set(event)


@pytest.mark.filterwarnings("ignore")  # the interpreter warns of threads
@needs_fork
def test_the_child_of_a_fork_may_clear_an_event_that_is_set_again(event: Event) -> None:
    event.set()
    child = os.fork()
    if not child:
        event.clear()
        os._exit(0)
    os.waitpid(child, 0)
    event.set()
    assert is_set(event)
