"""QB-RDV-11 and 12: withdrawn callers cannot be matched and affect no other caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    DisconnectedQueueError,
    QueueBroker,
    RendezvousTimeoutError,
    _sync,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import connects_wait, nobody_waits
from tests.spec.callers import calls, two_brokers
from tests.support import Threads, until

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker.testing import Run


class InterruptError(BaseException):
    """An exception raised in a caller from outside."""


both_roles = pytest.mark.parametrize(
    "accepts", [True, False], ids=["accept", "connect"]
)


@clause("QB-RDV-11")
@both_roles
@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_caller_that_timed_out_cannot_be_matched(
    accepts: bool, timeout: float
) -> None:
    """The call is withdrawn before its exception escapes: the opposite call waits."""
    b, a = two_brokers()
    mine, opposite = calls(b, a, accepts=accepts)

    with pytest.raises(RendezvousTimeoutError):
        mine(timeout)
    nobody_waits(b, a)
    with pytest.raises(RendezvousTimeoutError):
        opposite(timeout)

    nobody_waits(b, a)


@clause("QB-RDV-11")
def test_a_caller_released_by_a_close_cannot_be_matched() -> None:
    """A connect from a closed broker is withdrawn from the list where it waited."""
    b, a = two_brokers()
    with Threads() as threads:
        leaver = threads.start(a.connect, "b", 1)
        connects_wait(b, {1: 1})

        a.close()

        assert isinstance(leaver.error(), BrokerClosedError)
    nobody_waits(b, a)
    with pytest.raises(RendezvousTimeoutError):
        b.accept(1, timeout=0)


@clause("QB-RDV-11")
@both_roles
def test_a_caller_interrupted_while_it_waits_cannot_be_matched(accepts: bool) -> None:
    """At every wait point, in every schedule, no trace is left and the port works."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        interrupted = run.spawn(mine)
        run.interrupt(interrupted, InterruptError)
        interrupted.join()

        assert isinstance(interrupted.error, InterruptError)
        nobody_waits(b, a)
        with pytest.raises(RendezvousTimeoutError):
            opposite(0)
        again = run.spawn(mine)
        with opposite() as end:
            again.join()
            with again.result as peer:
                peer.send(b"x")
                assert end.receive() == b"x"
        nobody_waits(b, a)

    explore(program, bound=2, random=schedules(50), seed=1, limit=schedules(2000))


@clause("QB-RDV-11", "QB-RDV-12", "QB-RDV-6")
@both_roles
def test_an_interrupted_caller_leaves_its_opposites_to_other_callers(
    accepts: bool,
) -> None:
    """Two of each role, one is interrupted: the rest are matched or wait in order."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        others = [run.spawn(opposite) for _ in range(2)]
        interrupted = run.spawn(mine)
        other = run.spawn(mine)
        run.interrupt(interrupted, InterruptError)
        run.settle()

        # One may have been matched with the interrupted caller: it has an end whose
        # peer has disconnected.
        assert interrupted.done
        assert other.done
        for each in others:
            if not each.done:
                mine().disconnect()
        for call in (*others, other, interrupted):
            call.join()
            if not isinstance(call.error, InterruptError):
                call.result.disconnect()
        nobody_waits(b, a)

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(600))


@clause("QB-RDV-12")
@both_roles
def test_a_caller_interrupted_after_its_match_disconnects(accepts: bool) -> None:
    """At every wait point and after the match, the interrupted end disconnects."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        interrupted = run.spawn(mine)
        peer = run.spawn(opposite)
        run.interrupt(interrupted, InterruptError)
        interrupted.join()
        if interrupted.error is None:  # the call had returned
            interrupted.result.disconnect()
        run.settle()

        if not peer.done:
            mine().disconnect()
        peer.join()
        with pytest.raises(DisconnectedQueueError):
            peer.result.receive()
        nobody_waits(b, a)

    explore(program, bound=2, random=schedules(50), seed=1, limit=schedules(2000))


@clause("QB-RDV-12")
@both_roles
def test_a_caller_interrupted_on_waking_disconnects(
    accepts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception between match and return disconnects: the peer's receive raises."""
    b, a = two_brokers()
    mine, opposite = calls(b, a, accepts=accepts)
    park = _sync.park

    def interrupted(
        lock: _thread.LockType, ready: Callable[[], bool], deadline: float | None
    ) -> bool:
        woken = park(lock, ready, deadline)
        while woken and not ready():  # woken early, while its end is made
            woken = park(lock, ready, deadline)
        assert ready()
        if woken:
            raise InterruptError
        return woken

    with Threads() as threads:
        monkeypatch.setattr(_sync, "park", interrupted)
        waiter = threads.start(mine)
        until(lambda: len(b._broker.waiting) == 1, "the call does not wait")
        until(waiter_parks(b), "the call does not sleep")
        monkeypatch.setattr(_sync, "park", park)
        with opposite() as end:
            assert isinstance(waiter.error(), InterruptError)
            with pytest.raises(DisconnectedQueueError):
                end.receive(timeout=10)
    nobody_waits(b, a)


def waiter_parks(broker: QueueBroker) -> Callable[[], bool]:
    """Return a condition: every caller that waits at the broker is asleep."""
    return lambda: all(rdv.asleep() for rdv in broker._broker.waiting)
