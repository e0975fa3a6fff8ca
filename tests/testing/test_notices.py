"""A notify that woke no waiter is kept for the next waiter, if requested."""

from __future__ import annotations

from collections import deque

from queuebroker.testing.recorder import Notice, Notices


def _notice(waiters: deque[object], *, in_vain: bool = True) -> Notice:
    return Notice(waiters, "put", None, in_vain=in_vain)


def test_a_notice_that_woke_no_waiter_is_kept_once() -> None:
    notices = Notices(keeping=True)
    waiters = deque[object]()
    notices.add(_notice(waiters))

    assert [notices.take(waiters) for _ in range(2)] == [True, False]


def test_it_is_kept_for_its_own_condition() -> None:
    """Two empty ones compare equal, but are distinct."""
    notices = Notices(keeping=True)
    notices.add(_notice(deque[object]()))

    assert not notices.take(deque[object]())


def test_one_that_woke_somebody_is_not_kept() -> None:
    notices = Notices(keeping=True)
    waiters = deque[object]()
    notices.add(_notice(waiters, in_vain=False))

    assert not notices.take(waiters)


def test_none_is_kept_unless_that_is_asked_for() -> None:
    notices = Notices()
    waiters = deque[object]()
    notices.add(_notice(waiters))

    assert not notices.take(waiters)
