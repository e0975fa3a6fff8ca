"""QB-CONC-9: ends without references, collected at the worst moments.

The last reference to an end is dropped in another thread, or within the critical
section of a connection, by an observer that is called there.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import DisconnectedQueueError, MessageQueue, Operation, Status
from specs.clauses import clause
from tests.pairs import loose_queue_pair
from tests.schedules.outcome import outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker.testing import Run, Spawned


@contextmanager
def _left_open_on_purpose() -> Iterator[None]:
    """Suppress the warning about ends collected while connected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


class Dropper:
    """An observer that drops its references at the first send."""

    def __init__(self) -> None:
        self.held: list[MessageQueue] = []

    def __call__(self, operation: Operation, *_: object) -> None:
        if operation is Operation.SEND:
            self.held.clear()


@scenario(quick=1)
@clause("QB-CONC-9", "QB-PY-7")
def a_forgotten_end_releases_who_waits_for_it(run: Run) -> None:
    """Another thread drops it while its peer sends and receives."""
    with _left_open_on_purpose():
        left, right = loose_queue_pair()
        held = [right]
        del right
        left.send(b"full")
        calls: list[Spawned[Any]] = [
            run.spawn(left.receive),
            run.spawn(left.send, b"late"),
        ]
        run.spawn(held.clear, name="forget")

        for call in calls:
            assert outcome(call, DisconnectedQueueError) is DisconnectedQueueError
        run.join()
        assert left.status is Status.DISCONNECTED
        assert left._connection.deferred == []


@scenario()
@clause("QB-CONC-9")
def a_peer_forgotten_under_the_lock_of_its_connection(run: Run) -> None:
    """A send's own critical section drops the peer, while a receive waits."""
    with _left_open_on_purpose():
        dropper = Dropper()
        left, right = loose_queue_pair(2, observer=dropper)
        dropper.held.append(right)
        del right
        receive = run.spawn(left.receive)
        send = run.spawn(left.send, b"m")

        assert outcome(receive, DisconnectedQueueError) is DisconnectedQueueError
        assert outcome(send) is None
        assert left._connection.deferred == []
        assert left.stats().discarded == 1


@scenario()
@clause("QB-CONC-9", "QB-CONC-8")
def two_connections_forget_an_end_of_one_another(run: Run) -> None:
    """Each send, under its lock, drops an end of the other connection."""
    with _left_open_on_purpose():
        droppers = (Dropper(), Dropper())
        pairs = [loose_queue_pair(2, observer=dropper) for dropper in droppers]
        near = [pair[0] for pair in pairs]
        for dropper, pair in zip(droppers, reversed(pairs), strict=True):
            dropper.held.append(pair[1])
        del pairs, pair
        sends = [run.spawn(end.send, b"m") for end in near]

        for send in sends:
            outcome(send, DisconnectedQueueError)
        for dropper in droppers:  # a send that raised has not dropped any end
            dropper.held.clear()
        for end in near:
            with pytest.raises(DisconnectedQueueError):
                end.receive()
        assert all(end._connection.deferred == [] for end in near)


@scenario()
@clause("QB-CONC-9")
def an_end_forgotten_while_its_peer_hangs_up(run: Run) -> None:
    """Both are disconnected, in either order, without waiting for the other's lock."""
    with _left_open_on_purpose():
        left, right = loose_queue_pair()
        left.send(b"unread")
        connection = left._connection
        held = [right]
        del right
        run.spawn(held.clear, name="forget")
        run.spawn(left.disconnect)
        run.join()

        assert connection.closed[0]
        assert connection.status(1) is not Status.CONNECTED
        assert connection.deferred == []


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
