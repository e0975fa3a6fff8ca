"""QB-RDV-16: invariants of the waiting lists, checked at every step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from queuebroker import MessageQueue, QueueBroker, QueueBrokerError, _sync
from queuebroker.meeting.rendezvous import RdVState
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import accepts_wait, nobody_waits
from tests.spec.callers import calls, two_brokers
from tests.support import Threads

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterator

    from queuebroker.testing import Run


class CheckingLock:
    """A stand-in for a manager's lock that checks the lists at each release."""

    def __init__(self, lock: _thread.RLock, brokers: list[QueueBroker]) -> None:
        self._lock = lock
        self._is_owned = partial(_sync.owns, lock)
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


def check_lists(broker: QueueBroker) -> None:
    """Check the invariants of QB-RDV-16, and the list of outgoing connects."""
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
    """Register a program during which the lists are checked."""
    SCENES[program.__name__] = program
    return program


@scene
def two_accepts_two_connects(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """All calls are matched."""
    for _ in range(2):
        run.spawn(b.accept, 1)
        run.spawn(a.connect, "b", 1)


@scene
def some_run_out_of_time(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """Some calls are matched, others time out."""
    for timeout in (0, 1):
        accept, connect = calls(b, a, accepts=True)
        run.spawn(accept, timeout)
        run.spawn(connect, timeout)


@scene
def one_is_exclusive(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """One call may be rejected."""
    run.spawn(lambda: b.accept(1, exclusive=True))
    run.spawn(lambda: b.accept(1, timeout=1))
    run.spawn(lambda: a.connect("b", 1, timeout=1))


@scene
def a_broker_closes(run: Run, b: QueueBroker, a: QueueBroker) -> None:
    """Some calls are matched, others are released."""
    run.spawn(b.accept, 1)
    run.spawn(a.connect, "b", 1)
    run.spawn(b.connect, "a", 2)
    run.spawn(a.close)


@clause("QB-RDV-16")
@pytest.mark.parametrize("name", SCENES)
def test_the_lists_are_sound_after_every_step(name: str) -> None:
    """In every schedule, a port never lists both roles, nor a call that has ended."""

    def program(run: Run) -> None:
        b, a = two_brokers()
        lock = CheckingLock(b.manager.lock, [b, a])
        b.manager.lock = lock  # type: ignore[assignment]  # acts as a lock
        SCENES[name](run, b, a)
        run.settle()
        b.manager.close()
        for spawned in run_all(run):
            spawned.disconnect()
        assert lock.looks > 3
        nobody_waits(b, a)

    explore(program, bound=1, random=schedules(40), seed=1, limit=schedules(500))


def run_all(run: Run) -> Iterator[MessageQueue]:
    """Wait for all spawned calls; yield the ends they returned."""
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
    """States are final: a later close, match or timeout has no effect."""
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
