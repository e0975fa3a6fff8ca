"""QB-RDV-11, 12 and 16: callers that leave, and what is true of the lists all along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    DisconnectedQueueError,
    MessageQueue,
    QueueBroker,
    QueueBrokerError,
    RendezvousTimeoutError,
    _sync,
)
from queuebroker.rendezvous import RdVState
from queuebroker.testing import explore
from specs.clauses import clause
from tests.meetings import accepts_wait, connects_wait, nobody_waits
from tests.support import Threads, until

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterator

    from queuebroker.testing import Run


class StruckError(BaseException):
    """What is thrown at a caller from outside."""


def two_brokers() -> tuple[QueueBroker, QueueBroker]:
    """Return the brokers "b" and "a" of a manager of their own."""
    manager = BrokerManager()
    return QueueBroker("b", manager=manager), QueueBroker("a", manager=manager)


def calls(
    b: QueueBroker, a: QueueBroker, *, accepts: bool
) -> tuple[Callable[..., MessageQueue], Callable[..., MessageQueue]]:
    """Return a call in one role, and the opposite one; both take a timeout."""

    def accept(timeout: float | None = None) -> MessageQueue:
        return b.accept(1, timeout=timeout)

    def connect(timeout: float | None = None) -> MessageQueue:
        return a.connect("b", 1, timeout=timeout, required=True)

    return (accept, connect) if accepts else (connect, accept)


both_roles = pytest.mark.parametrize(
    "accepts", [True, False], ids=["accept", "connect"]
)


@clause("QB-RDV-11")
@both_roles
@pytest.mark.parametrize("timeout", [0, 0.001])
def test_who_ran_out_of_time_cannot_be_met(accepts: bool, timeout: float) -> None:
    """Withdrawn before the exception escapes: the opposite call waits."""
    b, a = two_brokers()
    mine, opposite = calls(b, a, accepts=accepts)

    with pytest.raises(RendezvousTimeoutError):
        mine(timeout)
    nobody_waits(b, a)
    with pytest.raises(RendezvousTimeoutError):
        opposite(timeout)

    nobody_waits(b, a)


@clause("QB-RDV-11")
def test_who_was_released_by_a_close_cannot_be_met() -> None:
    """A connect from a closed broker is withdrawn where it waited."""
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
def test_who_was_struck_while_waiting_cannot_be_met(accepts: bool) -> None:
    """At every wait point, in every schedule: no trace is left, the port serves."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        struck = run.spawn(mine)
        run.interrupt(struck, StruckError)
        struck.join()

        assert isinstance(struck.error, StruckError)
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

    explore(program, bound=2, random=50, seed=1, limit=2000)


@clause("QB-RDV-11", "QB-RDV-12", "QB-RDV-6")
@both_roles
def test_who_is_struck_leaves_its_opposites_to_others(accepts: bool) -> None:
    """Two of either role, one is struck: the rest are met in order or wait in order."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        others = [run.spawn(opposite) for _ in range(2)]
        struck = run.spawn(mine)
        other = run.spawn(mine)
        run.interrupt(struck, StruckError)
        run.settle()

        # One may have been met by who was struck: it has an end, whose peer is gone.
        assert struck.done
        assert other.done
        for each in others:
            if not each.done:
                mine().disconnect()
        for call in (*others, other, struck):
            call.join()
            if not isinstance(call.error, StruckError):
                call.result.disconnect()
        nobody_waits(b, a)

    explore(program, bound=1, random=60, seed=1, limit=600)


@clause("QB-RDV-12")
@both_roles
def test_who_is_struck_after_its_match_hangs_up(accepts: bool) -> None:
    """At every wait point and after the match: no peer is left with a silent queue."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        mine, opposite = calls(b, a, accepts=accepts)
        struck = run.spawn(mine)
        peer = run.spawn(opposite)
        run.interrupt(struck, StruckError)
        struck.join()
        if struck.error is None:  # it had returned
            struck.result.disconnect()
        run.settle()

        if not peer.done:
            mine().disconnect()
        peer.join()
        with pytest.raises(DisconnectedQueueError):
            peer.result.receive()
        nobody_waits(b, a)

    explore(program, bound=2, random=50, seed=1, limit=2000)


@clause("QB-RDV-12")
@both_roles
def test_who_is_struck_on_waking_hangs_up(
    accepts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception between the match and the return: the peer's receive raises."""
    b, a = two_brokers()
    mine, opposite = calls(b, a, accepts=accepts)
    park = _sync.park

    def struck(
        lock: _thread.LockType, ready: Callable[[], bool], deadline: float | None
    ) -> bool:
        woken = park(lock, ready, deadline)
        assert ready()
        if woken:
            raise StruckError
        return woken

    with Threads() as threads:
        monkeypatch.setattr(_sync, "park", struck)
        waiter = threads.start(mine)
        until(lambda: len(b._broker.waiting) == 1, "the call does not wait")
        until(waiter_parks(b), "the call does not sleep")
        monkeypatch.setattr(_sync, "park", park)
        with opposite() as end:
            assert isinstance(waiter.error(), StruckError)
            with pytest.raises(DisconnectedQueueError):
                end.receive(timeout=10)
    nobody_waits(b, a)


def waiter_parks(broker: QueueBroker) -> Callable[[], bool]:
    """Return whether the one who waits at a broker has begun to."""
    return lambda: all(rdv.parker.locked() for rdv in broker._broker.waiting)


class CheckingLock:
    """Stands for a manager's lock: whenever it is let go, the lists must be sound."""

    def __init__(self, lock: _thread.LockType, brokers: list[QueueBroker]) -> None:
        self._lock = lock
        self._brokers = brokers
        self.looks = 0

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.looks += 1
        try:
            for broker in self._brokers:
                check_lists(broker)
        finally:
            self._lock.release()

    def locked(self) -> bool:
        """As the lock itself."""
        return self._lock.locked()


def check_lists(broker: QueueBroker) -> None:
    """Check the invariants of QB-RDV-16 and of who waits elsewhere."""
    waiting = broker._broker.waiting
    for (kind, port), line in waiting._waiting.items():
        assert line, "a port without a waiter"
        assert len({rdv.state for rdv in line}) == 1, "both roles on one port"
        assert all(rdv.waiting and rdv.end is None for rdv in line)
        assert all((rdv.kind, rdv.port) == (kind, port) for rdv in line)
    for rdv in broker._broker.departing:
        assert rdv.state is RdVState.WAITING_CONNECT
        assert rdv in list(rdv.target.waiting)


SCENES: dict[str, Callable[[Run, QueueBroker, QueueBroker], None]] = {}


def scene(
    program: Callable[[Run, QueueBroker, QueueBroker], None],
) -> Callable[[Run, QueueBroker, QueueBroker], None]:
    """Let the lists be checked while a program runs."""
    SCENES[program.__name__] = program
    return program


@scene
def two_accepts_two_connects(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """All are met."""
    for _ in range(2):
        run.spawn(b.accept, 1)
        run.spawn(a.connect, "b", 1)


@scene
def some_run_out_of_time(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """Some are met, some leave."""
    for timeout in (0, 1):
        accept, connect = calls(b, a, accepts=True)
        run.spawn(accept, timeout)
        run.spawn(connect, timeout)


@scene
def one_is_exclusive(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """One may be refused."""
    run.spawn(lambda: b.accept(1, exclusive=True))
    run.spawn(lambda: b.accept(1, timeout=1))
    run.spawn(lambda: a.connect("b", 1, timeout=1))


@scene
def a_broker_closes(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """Some are met, some released."""
    run.spawn(b.accept, 1)
    run.spawn(a.connect, "b", 1)
    run.spawn(b.connect, "a", 2)
    run.spawn(a.close)


@clause("QB-RDV-16")
@pytest.mark.parametrize("name", SCENES)
def test_the_lists_are_sound_after_every_step(name: str) -> None:
    """Never both roles on a port, nobody listed who has ended, in every schedule."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        lock = CheckingLock(b.manager.lock, [b, a])
        b.manager.lock = lock  # type: ignore[assignment]  # it does what is asked of it
        SCENES[name](run, b, a)
        run.settle()
        b.manager.close()
        for spawned in run_all(run):
            spawned.disconnect()
        assert lock.looks > 3
        nobody_waits(b, a)

    explore(program, bound=1, random=40, seed=1, limit=500)


def run_all(run: Run) -> Iterator[MessageQueue]:
    """Wait for all that was spawned; give the ends."""
    for spawned in run._spawned:
        spawned.join()
        if spawned.error is not None:
            assert isinstance(spawned.error, QueueBrokerError)
        elif spawned.result is not None:
            assert isinstance(spawned.result, MessageQueue)
            yield spawned.result


@clause("QB-RDV-16")
@pytest.mark.parametrize("how", ["matched", "withdrawn"])
def test_a_call_that_has_ended_takes_no_further_part(how: str) -> None:
    """The final states are final: a close, a match and a timeout come too late."""
    b, a = two_brokers()
    with Threads() as threads:
        waiter = threads.start(b.accept, 1)
        accepts_wait(b, {1: 1})
        [rdv] = b._broker.waiting
        assert rdv.state is RdVState.WAITING_ACCEPT

        if how == "matched":
            a.connect("b", 1, required=True).disconnect()
            waiter.result().disconnect()
        b.close()
        waiter.error()

        assert rdv.state.value == how
        b.close()
        assert a.connect("b", 1, timeout=1) is None
        assert rdv.state.value == how
