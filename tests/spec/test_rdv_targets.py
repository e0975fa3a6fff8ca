"""QB-RDV-13, 14, 17: the target of a call: a known or unknown broker, a port."""

from __future__ import annotations

import math
import typing
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import Broker, BrokerManager, QueueBroker, UnknownBrokerError
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import are_a_pair, meet
from tests.spec.faces import both_faces
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run
    from tests.spec.faces import Face


@clause("QB-RDV-13")
@both_faces
@pytest.mark.parametrize("timeout", [None, 0, 60, math.inf])
def test_an_unknown_name_is_none_at_once_and_for_good(
    face: Face, timeout: float | None, manager: BrokerManager
) -> None:
    """With any timeout; a broker registered later finds no waiting caller."""
    a = face("a", manager=manager)
    began = monotonic()

    assert a.connect("late", 1, timeout=timeout) is None

    assert monotonic() - began < 0.5
    assert a.outgoing() == {}
    late = face("late", manager=manager)
    assert late.waiting_connects() == {}


@clause("QB-RDV-13")
def test_a_connect_to_an_unknown_name_returns_at_once_and_does_not_wait() -> None:
    """In every schedule with a registration: None, or the broker was found."""

    def program(run: Run) -> None:
        manager = BrokerManager()
        a = QueueBroker("a", manager=manager)
        connect = run.spawn(lambda: a.connect("late", 1))
        late = QueueBroker("late", manager=manager)
        run.settle()
        if connect.done:
            assert connect.result is None
            assert late.waiting_connects() == {}
        else:
            late.accept(1, timeout=0).disconnect()
            connect.join()
            connect.result.disconnect()  # type: ignore[union-attr]  # it was found
        assert run.now == 0

    explore(program, bound=2, random=schedules(50), seed=1)


@clause("QB-RDV-14")
@both_faces
def test_a_required_broker_that_is_unknown_raises(
    face: Face, manager: BrokerManager
) -> None:
    """UnknownBrokerError at once; with a known name `required` has no effect."""
    a = face("a", manager=manager)

    with pytest.raises(UnknownBrokerError, match="'nobody'"):
        a.connect("nobody", 1, required=True)
    with pytest.raises(UnknownBrokerError, match="'nobody'"):
        a.connect("nobody", 1, required=True, timeout=60)
    with Threads() as threads:
        accept = threads.start(lambda: a.accept(1))
        with a.connect("a", 1, required=True) as end, accept.result() as peer:
            are_a_pair(end, peer)


@clause("QB-RDV-14")
@both_faces
def test_the_type_of_a_required_connect_has_no_none(face: Face) -> None:
    """The overload for `required=True` returns an end, never None."""
    returned = {}
    for overload in typing.get_overloads(face.connect):
        given_ = overload.__annotations__
        returned[given_["required"]] = given_["return"]

    end = "Channel" if face is Broker else "MessageQueue"
    assert returned == {"Literal[True]": end, "bool": f"{end} | None"}


@clause("QB-RDV-17")
@both_faces
@pytest.mark.parametrize(
    ("port", "error"),
    [
        (-1, ValueError),
        (2**31, ValueError),
        (-(2**31), ValueError),
        (True, TypeError),
        (False, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
        (b"1", TypeError),
    ],
)
def test_a_port_is_an_int_of_31_bits(
    face: Face, port: Any, error: type[Exception], manager: BrokerManager
) -> None:
    """Accept and connect reject others, in every state of the broker."""
    broker = face("b", manager=manager)
    for _ in range(2):
        calls: list[Callable[[], object]] = [
            lambda: broker.accept(port, timeout=0),
            lambda: broker.connect("b", port, timeout=0),
            lambda: broker.connect("nobody", port, timeout=0),
            lambda: next(broker.accept_iter(port)),
        ]
        for call in calls:
            with pytest.raises(error, match=r"^port must be"):
                call()
        broker.close()


@clause("QB-RDV-17")
@pytest.mark.parametrize("port", [0, 1, 2**31 - 1])
def test_both_edges_are_ports(port: int, manager: BrokerManager) -> None:
    """Each end reports the port that it was created at."""
    b, a = (QueueBroker(name, manager=manager) for name in "ba")

    left, right = meet(b, a, port)

    with left, right:
        assert (left.port, right.port) == (port, port)
