"""Every contestant does the whole work, in every measurement."""

from __future__ import annotations

import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from benchmarks import rivals
from benchmarks.crew import together
from benchmarks.workloads import (
    Doors,
    End,
    Link,
    contention,
    meetings,
    one_way,
    round_trip_us,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

_LINKS, _LINKS_MISSING = rivals.load(["pyzmq", "pynng", "queue_queue", "simple_queue"])
_DOORS, _ = rivals.load(["multiprocessing_connection"])


@pytest.fixture(scope="module", autouse=True)
def _native_threads_started() -> None:
    """Let NNG open its permanent threads before any test counts them."""
    for rival in _LINKS:
        with rival.link(1):
            pass


def test_the_clock_runs_from_the_first_start_to_the_last_end() -> None:
    baton: queue.SimpleQueue[None] = queue.SimpleQueue()
    order: list[str] = []

    def first() -> None:
        order.append("first")
        baton.put(None)

    def second() -> None:
        baton.get()
        order.append("second")

    assert together(second, first) > 0
    assert order == ["first", "second"]


def test_a_job_that_fails_is_not_measured() -> None:
    with pytest.raises(ZeroDivisionError):
        together(lambda: 1 / 0)


@pytest.mark.parametrize("rival", _LINKS, ids=lambda rival: rival.NAME)
def test_a_link_carries_messages_both_ways(rival: ModuleType) -> None:
    with rival.link(4) as link:
        for end, other in ((link.near, link.far), (link.far, link.near)):
            # No empty one: pynng raises on receiving it.
            for message in (b"x" * 64, b"last"):
                end.send(message)
                assert other.receive() == message


@pytest.mark.parametrize("rival", _LINKS, ids=lambda rival: rival.NAME)
def test_a_rival_does_the_work_of_the_figures(rival: ModuleType) -> None:
    assert one_way(rival.link, 64, 16)(200) > 0
    assert round_trip_us(rival.link, 64, 16, 20) > 0


@pytest.mark.parametrize("rival", _DOORS, ids=lambda rival: rival.NAME)
def test_a_rival_meets_on_several_doors(rival: ModuleType) -> None:
    assert meetings(rival.doors, 3)(10) > 0


def test_no_message_is_left_out_when_many_share_an_end() -> None:
    sent: list[bytes] = []
    received: list[bytes] = []

    @contextmanager
    def counting(_capacity: int) -> Iterator[Link]:
        there: queue.SimpleQueue[bytes] = queue.SimpleQueue()

        def send(message: bytes) -> None:
            sent.append(message)
            there.put(message)

        def receive() -> bytes:
            received.append(there.get())
            return received[-1]

        yield Link(End(send, receive), End(send, receive))

    contention(counting, size=8, capacity=4, workers=4)(10)

    # Ten is not divisible by four: each of the four does three.
    assert sent == received == [bytes(8)] * 12


def test_a_rival_that_loses_bytes_is_found_out() -> None:
    @contextmanager
    def cutting(_capacity: int) -> Iterator[Link]:
        there: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        end = End(there.put, lambda: there.get()[1:])
        yield Link(end, end)

    with pytest.raises(AssertionError, match="sent 8 bytes, the last message has 7"):
        one_way(cutting, size=8, capacity=4)(3)


def test_both_sides_of_every_meeting_hang_up() -> None:
    closed: list[str] = []

    class Side:
        def __init__(self, name: str) -> None:
            self._name = name

        def close(self) -> None:
            closed.append(self._name)

    @contextmanager
    def pretending(pairs: int) -> Iterator[Sequence[Doors]]:
        yield [Doors(lambda: Side("accept"), lambda: Side("connect"))] * pairs

    meetings(pretending, 2)(6)

    assert sorted(closed) == ["accept"] * 6 + ["connect"] * 6


def test_a_rival_that_is_not_installed_is_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr("importlib.import_module", absent)
    missing = "zmq"

    assert rivals.load(["pyzmq"]) == ([], ["pyzmq is not installed: left out"])


def test_a_rival_of_ours_that_is_broken_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'zqm'", name="zqm")

    monkeypatch.setattr("importlib.import_module", broken)

    with pytest.raises(ModuleNotFoundError):
        rivals.load(["pyzmq"])


def test_the_rivals_that_the_tests_need_are_here() -> None:
    # pyzmq comes with the extra "bench"; the others with the tests or with Python.
    names = {rival.NAME for rival in _LINKS}
    assert names >= {"pynng", "queue.Queue", "queue.SimpleQueue"}
    assert len(names) + len(_LINKS_MISSING) == 4
