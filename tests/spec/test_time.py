"""QB-TIME: every call that takes a timeout, on the virtual clock and on the real one.

Most clauses are tested on each call in `CALLS`, which all have to wait.
"""

from __future__ import annotations

import math
import threading
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import ReceiveTimeoutError, SendTimeoutError, _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.pairs import channel_pair, loose_queue_pair, queue_pair
from tests.spec.timed_calls import CALLS
from tests.support import Threads, until

if TYPE_CHECKING:
    from queuebroker.testing import Run

PROMPT_S = 0.5
# Windows has no longer waits than seven weeks.
LONG_S = min(365 * 86_400.0, _sync.WAIT_S_MAX / 2)

every_call = pytest.mark.parametrize("call", CALLS)


@clause("QB-TIME-1")
@every_call
def test_a_timeout_is_a_number_that_is_not_negative(call: str) -> None:
    """A negative number or NaN is a ValueError, a bool or a non-number a TypeError."""
    refused: list[tuple[object, type[Exception]]] = [
        (-1, ValueError),
        (-5e-324, ValueError),
        (-math.inf, ValueError),
        (math.nan, ValueError),
        (True, TypeError),
        (False, TypeError),
        ("1", TypeError),
        (1j, TypeError),
    ]
    with ExitStack() as stack:
        case = CALLS[call](stack)
        for timeout, error in refused:
            with pytest.raises(error, match=r"^timeout must be"):
                case.act(timeout)


@clause("QB-TIME-1")
@every_call
@pytest.mark.parametrize("timeout", [None, math.inf, 1e300, 10**400, 1e10])
def test_a_timeout_without_an_end_is_none(call: str, timeout: float | None) -> None:
    """Infinity, and values longer than a lock can wait, mean no timeout."""

    def program(run: Run) -> None:
        with ExitStack() as stack:
            case = CALLS[call](stack)
            waiting = run.spawn(case.act, timeout)
            run.sleep(1e9)
            assert not waiting.done
            case.release()
            run.join()

    explore(program, bound=0, random=2, seed=1)


@clause("QB-TIME-1")
@every_call
@pytest.mark.parametrize(
    "timeout", [_sync.WAIT_S_MAX, math.nextafter(_sync.WAIT_S_MAX, 0), 1e300]
)
def test_the_longest_timeouts_can_be_asked_of_a_real_lock(
    call: str, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the longest time a lock can wait, a call waits and is released."""
    parked = threading.Event()
    park = _sync.park

    def park_and_tell(lock: Any, ready: Any, deadline: float | None) -> bool:
        parked.set()
        return park(lock, ready, deadline)

    monkeypatch.setattr(_sync, "park", park_and_tell)
    with ExitStack() as stack, Threads() as threads:
        case = CALLS[call](stack)
        waiting = threads.start(case.act, timeout)
        assert parked.wait(PROMPT_S * 20), waiting.error()

        case.release()

        waiting.result()


@clause("QB-TIME-2", "QB-TIME-8")
@every_call
def test_a_timeout_of_zero_tries_once_and_takes_no_time(call: str) -> None:
    """With 0 a call that would wait raises its timeout error at once."""

    def program(run: Run) -> None:
        with ExitStack() as stack:
            case = CALLS[call](stack)
            for timeout in (0, 0.0, -0.0):
                with pytest.raises(case.error):
                    case.act(timeout)
            assert run.now == 0
            releasing = run.spawn(case.release)
            case.act(None)
            releasing.join()

    explore(program, bound=0, random=2, seed=1)


class _AnnouncedLock:
    """A lock that signals when a thread is about to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.wanted = threading.Event()

        self.acquire = self._lock.acquire
        self._is_owned = partial(_sync.owns, self._lock)

    def __enter__(self) -> bool:
        self.wanted.set()
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@clause("QB-TIME-8")
@pytest.mark.parametrize("polls", ["a receive", "a send"])
def test_a_poll_waits_for_the_operation_under_way(
    polls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With timeout 0 the answer comes after the operation that is under way."""
    with monkeypatch.context() as patched:
        patched.setattr(_sync, "RLock", _AnnouncedLock)
        left, right = loose_queue_pair(capacity=1)
    connection = left._connection
    lock: Any = connection.lock
    with left, right, Threads() as threads:
        if polls == "a send":
            left.send(b"1")
        with lock:
            lock.wanted.clear()
            poll = (
                threads.start(left.send_nowait, b"2")
                if polls == "a send"
                else threads.start(right.receive_nowait)
            )
            until(lambda: lock.wanted.is_set() or poll.done, "nobody polls")
            if polls == "a send":
                connection.take_locked(1, 0)
            else:
                connection.send_locked(0, b"2")
        poll.result()
        assert right.pending == (polls == "a send")


@clause("QB-TIME-2")
@every_call
@pytest.mark.parametrize("timeout", [1e-9, 0.25, 3600.0, LONG_S])
def test_a_timeout_is_exact_on_the_virtual_clock(call: str, timeout: float) -> None:
    """When the timeout passes, the call's own error is raised, at the deadline."""

    def program(run: Run) -> None:
        with ExitStack() as stack:
            case = CALLS[call](stack)
            deadline = run.now + timeout
            with pytest.raises(case.error):
                case.act(timeout)
            assert run.now == deadline

    explore(program, bound=1, random=5, seed=1)


@clause("QB-TIME-3")
@every_call
def test_waking_for_no_reason_does_not_move_the_deadline(call: str) -> None:
    """A call has one deadline, however often it wakes up before that."""

    def program(run: Run) -> None:
        with ExitStack() as stack:
            case = CALLS[call](stack)
            deadline = run.now + 2.5
            with pytest.raises(case.error):
                case.act(2.5)
            assert run.now == deadline

    report = explore(program, bound=2, random=20, seed=1, spurious=2)
    assert report.schedules > 2, "nobody was woken for no reason"


@clause("QB-TIME-2")
def test_no_timeout_is_early_on_the_real_clock() -> None:
    """It is never raised before the deadline, and promptly after it."""
    with ExitStack() as stack:
        cases = {name: make(stack) for name, make in CALLS.items()}
        for timeout in (0.0005, 0.01):
            for name, case in cases.items():
                began = perf_counter()
                with pytest.raises(case.error):
                    case.act(timeout)
                took = perf_counter() - began
                assert timeout <= took < timeout + PROMPT_S, name


@clause("QB-TIME-3")
def test_pieces_that_trickle_in_do_not_move_the_deadline() -> None:
    """`read_exactly` has one deadline for all pieces that it reads."""

    def program(run: Run) -> None:
        with channel_pair(8) as (left, right):

            def trickle() -> None:
                for _ in range(4):
                    run.sleep(0.4)
                    left.write(b"x")

            run.spawn(trickle)
            with pytest.raises(ReceiveTimeoutError):
                right.read_exactly(4, timeout=1.0)
            assert run.now == 1.0
            run.join()

    # Only schedules in which time does not pass while a task could run.
    explore(program, bound=0, random=0)


@clause("QB-TIME-3")
def test_room_that_trickles_in_does_not_move_the_deadline() -> None:
    """`write_all` and `send_many` have one deadline for all pieces that they send."""

    def program(run: Run) -> None:
        with channel_pair(1) as (left, right), queue_pair(1) as (near, far):

            def drain() -> None:
                for _ in range(4):
                    run.sleep(0.4)
                    right.read(bytearray(1))
                    far.receive()

            def write() -> None:
                with pytest.raises(SendTimeoutError):
                    left.write_all(b"abcdef", timeout=1.0)
                assert run.now == 1.0
                left.write(b"g")

            def send() -> None:
                assert near.send_many([b"1", b"2", b"3", b"4"], timeout=1.0) == 3
                assert run.now == 1.0
                near.send(b"4")

            for function in (drain, write, send):
                run.spawn(function)
            run.join()

    explore(program, bound=0, random=0)
