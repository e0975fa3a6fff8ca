"""`Event`: an eventfd, and the substitutes of systems that have none, on Linux."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

import pytest

from queuebroker import _platform
from queuebroker.waiting import event as event_module
from queuebroker.waiting.event import Event
from specs.clauses import clause
from tests.support import LIMIT_S, Threads, switch_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

# By kind: the system that has it.
KINDS = {"eventfd": "linux", "pipe": "posix", "sockets": "windows"}


@pytest.fixture(params=KINDS)
def event(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Event]:
    here, system = _platform.SYSTEM, KINDS[request.param]
    if here not in ("linux", system):
        pytest.skip("only Linux stands in for other systems")
    if here != system:
        monkeypatch.setattr(event_module, "_HAS_EVENTFD", False)
        monkeypatch.setattr(_platform, "SYSTEM", system)
        closers = {"pipe": os.close, "sockets": lambda opened: opened.close()}
        monkeypatch.setattr(event_module, "_close", closers[request.param])
    made = Event()
    yield made
    made.close()


def is_set(event: Event, limit_s: float = 0) -> bool:
    return bool(select.select([event.fd], [], [], limit_s)[0])


@clause("QB-BOOK-5")
def test_an_event_is_readable_from_the_first_set_to_the_next_clear(
    event: Event,
) -> None:
    assert not is_set(event)
    for _ in range(3):
        event.set()
        event.set()
        assert is_set(event, LIMIT_S)

        event.clear()

        assert not is_set(event)
        with pytest.raises(BlockingIOError):
            event.clear()


def test_no_set_is_lost_and_none_has_to_wait(event: Event) -> None:
    """More sets than any pipe or socket has room for, by several threads at once."""
    noted: list[int] = []

    def note(begin: int) -> None:
        for number in range(begin, begin + 5_000):
            noted.append(number)
            event.set()

    seen: list[int] = []
    with switch_interval(1e-6), Threads() as threads:
        for begin in (0, 5_000):
            threads.start(note, begin)
        while len(seen) < 10_000:
            assert is_set(event, LIMIT_S)
            event.clear()
            count = len(noted)
            seen += noted[:count]
            del noted[:count]

    assert sorted(seen) == list(range(10_000))


@pytest.mark.parametrize("used", range(10))
def test_a_lack_of_memory_leaves_an_event_that_can_be_set(
    event: Event, used: int
) -> None:
    """Else the driver would never again be woken."""
    memory = pytest.importorskip("_testcapi", reason="no _testcapi here")
    for _ in range(used):
        event.set()
        event.clear()
    for call in range(8):
        event.set()
        assert is_set(event, LIMIT_S)
        clear = event.clear
        memory.set_nomemory(call, call + 1)
        try:
            clear()
        except MemoryError:
            pass
        finally:
            memory.remove_mem_hooks()
        event.set()
        assert is_set(event, LIMIT_S)


def test_its_descriptors_are_closed_with_it(event: Event) -> None:
    number = event.fd

    event.close()
    event.close()

    with pytest.raises(OSError):
        os.fstat(number)
