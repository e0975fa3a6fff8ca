"""`QuickSends` by itself: which sends share a write, and which call writes the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import _sync
from queuebroker.sockets.quick_sends import QuickSends
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable


class Thread:
    """Another thread, whose calls the test makes."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], object], float]] = []
        self.lacks_memory = False

    def flush_soon(self, flush: Callable[[], object], delay_s: float = 0.0) -> None:
        if self.lacks_memory:
            raise MemoryError
        self.calls.append((flush, delay_s))

    def work(self) -> float:
        """Make the only call; return its delay."""
        [(call, delay_s)] = self.calls
        self.calls.clear()
        call()
        return delay_s


@pytest.fixture
def quick_sends() -> QuickSends:
    return QuickSends(_sync.RLock())


@clause("QB-SOCK-8")
def test_a_sender_that_goes_on_is_left_alone_until_it_stops(
    quick_sends: QuickSends,
) -> None:
    thread, flushed = Thread(), list[None]()
    flush = lambda: flushed.append(None)  # noqa: E731 - one object
    for _ in range(3):
        quick_sends.begin_group(thread.flush_soon, flush)
    assert thread.work() == 0
    assert not flushed
    assert thread.work() > 0
    assert len(flushed) == 1
    quick_sends.begin_group(thread.flush_soon, flush)
    assert thread.work() == 0
    assert len(flushed) == 2


@clause("QB-SOCK-8")
def test_a_sender_that_loses_its_thread_gets_another(quick_sends: QuickSends) -> None:
    """The calls of the first one are never made."""
    lost, other = Thread(), Thread()
    quick_sends.begin_group(lost.flush_soon, int)
    quick_sends.begin_group(other.flush_soon, int)
    assert other.work() == 0


@clause("QB-SOCK-8")
def test_a_check_without_memory_for_the_next_one_writes_at_once(
    quick_sends: QuickSends,
) -> None:
    thread, flushed = Thread(), list[None]()
    quick_sends.begin_group(thread.flush_soon, lambda: flushed.append(None))
    quick_sends.begin_group(thread.flush_soon, lambda: flushed.append(None))
    [(review, _)] = thread.calls
    thread.lacks_memory = True
    review()
    assert len(flushed) == 1


def test_a_pause_halves_what_counts_as_a_row(
    quick_sends: QuickSends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that stops for a moment goes on as one, and a burst does not."""
    now = [100.0]
    monkeypatch.setattr(_sync, "monotonic", lambda: now[0])

    def send(count: int) -> bool:
        return [quick_sends.may_share(goes_on=False) for _ in range(count)][-1]

    assert not send(9)
    assert send(1)
    send(100)
    for _ in range(2):
        now[0] += 1
        assert not send(1)
    assert send(1)
    for _ in range(10):
        now[0] += 1
        is_shared = send(2)
    assert not is_shared
