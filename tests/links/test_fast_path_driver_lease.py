"""`FastPathDriver` by itself: a thread that reads a link by a lease, and leaves it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.links.fast_path_driver import _WaitableLink
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync
from specs.clauses import clause
from tests.links.alone import Alone, LeaseOfOne, Short

if TYPE_CHECKING:
    from bus.threads.inbox import Inbox


class _NotedLease(LeaseOfOne):
    """A read lease that records when it is taken and left."""

    def __init__(self, calls: list[str], *, free: bool = True) -> None:
        super().__init__()
        self._calls, self._free = calls, free

    def take(self, _: Inbox) -> bool:
        self._calls.append("take")
        return self._free

    def leave(self, _: Inbox | None = None) -> None:
        self._calls.append("leave")


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("waits", [True, False])
def test_a_thread_that_is_about_to_wait_reads_the_link_before_it_sends(
    *, waits: bool
) -> None:
    """Else an answer that arrives before the wait would wake the comm thread."""
    alone, host = Alone(), ThreadManager("asks")
    host.adopt()
    host.waits_next = waits

    assert alone.ask(host, _NotedLease(alone.calls))

    sent = alone.calls.index("full 1")
    assert ("take" in alone.calls[:sent]) is waits
    assert "leave" not in alone.calls
    assert (host.leased is host.link_wait) is waits


@clause("BUS-CHAN-7")
def test_another_thread_that_reads_the_link_goes_on_with_that() -> None:
    alone, host = Alone(), ThreadManager("asks")
    host.adopt()
    host.waits_next = True

    assert alone.ask(host, _NotedLease(alone.calls, free=False))

    assert host.leased is None
    host.return_lease()
    assert "leave" not in alone.calls


@clause("BUS-CHAN-7", "BUS-MSG-11")
@pytest.mark.parametrize("then", ["something is to be done", "it serves no more"])
def test_a_thread_that_does_not_wait_after_all_leaves_the_link(then: str) -> None:
    """Frames that arrive there may be for others."""
    alone, host = Alone(), ThreadManager("asks")
    host.adopt()
    host.waits_next = True
    alone.ask(host, _NotedLease(alone.calls))
    host.link_wait = None
    left = list[bool]()

    if then == "something is to be done":
        host.ask(lambda: left.append("leave" in alone.calls))
    host.poll(0)

    assert all(left)
    assert alone.calls[-1] == "leave"
    assert host.leased is None
    assert not host.waits_next


class LeaseOfParts(LeaseOfOne):
    """The read lease of a long frame, with its missing bytes after each read."""

    def __init__(self, *missing_bytes: int) -> None:
        super().__init__()
        self.to_come = list(missing_bytes)

    def read(self) -> list[bytes]:
        self.missing_bytes = self.to_come.pop(0)
        return [] if self.missing_bytes else [b"+1"]


@clause("BUS-CHAN-7")
def test_a_thread_that_begins_to_read_a_long_frame_reads_all_of_it() -> None:
    """Without the comm thread, and other threads can use the links meanwhile."""
    alone, lease = Alone(), LeaseOfParts(300, 100, 0)
    held = []
    lease.sleep = lambda _: held.append(alone.fast_path_driver.hold.locked())  # type: ignore[method-assign]
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, None)

    assert alone.todo == deque([b"+1"])
    assert (lease.left, lease.to_come) == (1, [])
    assert held == [False] * 3


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("missing_bytes", [(300, 300), (300, 301), (0,)])
def test_a_thread_woken_for_another_reason_leaves_an_incomplete_frame(
    missing_bytes: tuple[int, ...],
) -> None:
    """As soon as no more of it arrives: the reason for the wake-up may be waiting."""
    alone, lease = Alone(), LeaseOfParts(*missing_bytes, 100, 0)
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, None)

    assert (lease.slept, lease.left) == (len(missing_bytes), 1)


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("why", ["something else is here", "it is late", "main"])
def test_a_thread_with_other_work_leaves_an_incomplete_long_frame(why: str) -> None:
    """Even if more of it arrives; a thread that may be interrupted leaves it, too."""
    alone, lease = Alone(), LeaseOfParts(*range(300, 0, -1))
    deadline = _sync.monotonic() if why == "it is late" else None
    alone.host.pending = lambda: why == "something else is here"
    alone.host.main = why == "main"
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, deadline)

    assert (len(lease.to_come), lease.left) == (299, 1)


@clause("QB-ERR-9")
def test_a_thread_that_is_interrupted_as_it_leaves_ends_no_link() -> None:
    """It has processed all that it read by then."""
    alone, lease = Alone(), LeaseOfOne(b"+1")

    def leave(_: Inbox | None = None) -> None:
        lease.left += 1
        if lease.left == 1:
            raise KeyboardInterrupt

    lease.leave = leave  # type: ignore[method-assign]
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )
    with pytest.raises(KeyboardInterrupt):
        waitable.wait(alone.host, None)

    assert alone.calls == ["soon"]


def test_a_thread_leaves_the_link_after_several_waits_in_vain() -> None:
    lease: Any = LeaseOfOne()
    alone = Alone()
    waitable = _WaitableLink(alone.fast_path_driver, cast("Any", Short()), lease)

    waits = [waitable.wait(alone.host, None) for _ in range(8)]

    assert waits == [True] * 7 + [False]
