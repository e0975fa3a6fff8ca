"""QB-NAME-5 to 8: objects and calls that end with a broker, and those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    QueueBroker,
    UnknownBrokerError,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import accepts_wait, connects_wait, meet, meet_bytes
from tests.spec.faces import both_faces
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run
    from tests.spec.faces import Face


@clause("QB-NAME-5")
def test_a_name_is_free_after_close_and_its_heir_inherits_nothing(
    manager: BrokerManager,
) -> None:
    """The connect to the old broker raises; an accept on the new broker waits."""
    old, a = (QueueBroker(name, manager=manager) for name in "xa")
    with Threads() as threads:
        orphan = threads.start(a.connect, "x", 1)
        connects_wait(old, {1: 1})
        left, right = meet(old, a, 2)

        old.close()
        heir = QueueBroker("x", manager=manager)
        accept = threads.start(heir.accept, 1)

        assert isinstance(orphan.error(), BrokerClosedError)
        accepts_wait(heir, {1: 1})
        assert (heir.waiting_connects(), a.outgoing()) == ({}, {})
        assert (old.closed, heir.closed) == (True, False)
        old.close()
        assert manager.names() == ["a", "x"]
        with a.connect("x", 1, required=True) as caller:
            accept.result().disconnect()
            assert caller.remote_disconnected
        left.send(b"still there")
        assert right.receive() == b"still there"
        left.disconnect()


@clause("QB-NAME-6")
@both_faces
def test_close_releases_the_callers_that_wait_at_a_broker_or_for_it(
    face: Face, manager: BrokerManager
) -> None:
    """An accept on it, a connect to it and a connect from it raise; others wait on."""
    b, a, far = (face(name, manager=manager) for name in ("b", "a", "far"))
    with Threads() as threads:
        accept = threads.start(lambda: b.accept(1))
        coming = threads.start(lambda: a.connect("b", 2))
        going = threads.start(lambda: b.connect("far", 3))
        to_itself = threads.start(lambda: b.connect("b", 4))
        stranger = threads.start(lambda: far.accept(5))
        accepts_wait(b, {1: 1})
        connects_wait(b, {2: 1, 4: 1})
        connects_wait(far, {3: 1})
        accepts_wait(far, {5: 1})

        b.close()
        b.close()

        for call in (accept, coming, going, to_itself):
            assert isinstance(call.error(), BrokerClosedError)
        assert far.waiting_connects() == {}
        assert far.waiting_accepts() == {5: 1}
        assert not stranger.done
        assert manager.names() == ["a", "far"]
        far.close()
        stranger.error()


@clause("QB-NAME-6")
@pytest.mark.parametrize("closed", ["b", "a", "both"])
def test_close_against_a_match_has_no_middle(closed: str) -> None:
    """In every schedule both sides have an end of one connection, or both raise."""

    def program(run: Run) -> None:
        manager = BrokerManager()
        brokers = {name: QueueBroker(name, manager=manager) for name in "ba"}
        accept = run.spawn(brokers["b"].accept, 1)
        connect = run.spawn(lambda: brokers["a"].connect("b", 1, required=True))
        closes = [
            run.spawn(brokers[name].close)
            for name in (brokers if closed == "both" else closed)
        ]
        for each in closes:
            each.join()
        run.settle()
        assert connect.done
        if connect.error is None:
            accept.join()
            with accept.result as left, connect.result as right:
                left.send(b"x")
                assert right.receive() == b"x"
        else:
            # To a late connect, a closed broker is an unknown name.
            known = (BrokerClosedError, UnknownBrokerError)
            assert isinstance(connect.error, known)
            brokers["b"].close()
            accept.join()
            assert isinstance(accept.error, BrokerClosedError)
        for broker in brokers.values():
            assert len(broker._broker.waiting) == len(broker._broker.departing) == 0

    bound, limit = (1, 300) if closed == "both" else (2, 600)
    explore(program, bound=bound, random=schedules(50), seed=1, limit=schedules(limit))


@clause("QB-NAME-7")
@pytest.mark.parametrize("closed", ["acceptor", "connector", "both", "manager"])
def test_queues_and_channels_outlive_their_brokers(closed: str) -> None:
    """Ping-pong goes on after either broker, both, or the manager is closed."""
    manager = BrokerManager()
    b, a = (QueueBroker(name, manager=manager) for name in "ba")
    d, c = (Broker(name, manager=manager) for name in "dc")
    left, right = meet(b, a)
    near, far = meet_bytes(d, c)
    close: dict[str, list[Callable[[], None]]] = {
        "acceptor": [b.close, d.close],
        "connector": [a.close, c.close],
        "both": [b.close, a.close, d.close, c.close],
        "manager": [manager.close],
    }

    for act in close[closed]:
        act()

    with left, right, near, far:
        for turn in range(3):
            left.send(b"ping %d" % turn)
            right.send(right.receive())
            assert left.receive() == b"ping %d" % turn
            near.write(b"!")
            far.write(far.read_exactly(1))
            assert near.read_exactly(1) == b"!"
        assert (left.local_name, left.remote_name) == ("b", "a")
    manager.close()


@clause("QB-NAME-8")
@both_faces
def test_a_closed_broker_refuses_and_is_unknown(
    face: Face, manager: BrokerManager
) -> None:
    """Accept and connect on it raise; a connect to it sees an unknown name."""
    gone, a = face("gone", manager=manager), face("a", manager=manager)
    gone.close()

    assert gone.closed
    calls: list[Callable[[], object]] = [
        lambda: gone.accept(1),
        lambda: gone.accept(1, timeout=0, exclusive=True),
        lambda: gone.connect("a", 1, timeout=1),
        lambda: gone.connect("gone", 1, timeout=1),
        lambda: gone.connect("nobody", 1, timeout=1),
        lambda: gone.connect("nobody", 1, timeout=0, required=True),
    ]
    for call in calls:
        with pytest.raises(BrokerClosedError):
            call()
    assert a.connect("gone", 1, timeout=1) is None
    with pytest.raises(UnknownBrokerError):
        a.connect("gone", 1, required=True)


@clause("QB-NAME-8")
def test_wrong_arguments_are_found_before_the_closed_broker(
    manager: BrokerManager,
) -> None:
    """A wrong argument raises in every state of the broker."""
    gone = QueueBroker("gone", manager=manager)
    gone.close()

    with pytest.raises(ValueError, match="port"):
        gone.accept(-1)
    with pytest.raises(TypeError, match="name"):
        gone.connect(b"a", 1)  # type: ignore[call-overload]  # under test
    with pytest.raises(ValueError, match="timeout"):
        gone.accept(1, timeout=-1)
