"""QB-DISC: a disconnect against every call that may be under way at either end."""

from __future__ import annotations

from functools import partial
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, MessageQueue, Status
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.schedules.outcome import failed, finish, outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

BLOCKED: dict[str, Callable[[MessageQueue], object] | None] = {
    "nothing": None,
    "a send": lambda end: end.send(b"blocked"),
    "a receive": lambda end: end.receive(),
}
# The calls under way at the one end and at the other; mirror images add nothing.
BOTH = {
    f"{one} and {other}": (one, other)
    for one, other in product(BLOCKED, BLOCKED)
    if list(BLOCKED).index(one) <= list(BLOCKED).index(other)
}


@scenario(quick=1, variants=BOTH)
@clause("QB-DISC-9", "QB-DISC-4", "QB-DISC-7", "QB-DISC-8")
def both_ends_hang_up_at_once(run: Run, one: str, other: str) -> None:
    """Both calls return, both ends are disconnected, nothing hangs, no other error."""
    with queue_pair() as ends:
        calls = []
        for end, way in zip(ends, (one, other), strict=True):
            if way == "a send":
                end.send(b"full")
        for end, way in zip(ends, (one, other), strict=True):
            act = BLOCKED[way]
            if act is not None:
                calls.append(run.spawn(act, end, name=way))
        goodbyes = [run.spawn(end.disconnect) for end in ends]

        finish(*calls, *goodbyes)
        for call in calls:
            outcome(call, DisconnectedQueueError)
        for goodbye, end in zip(goodbyes, ends, strict=True):
            assert outcome(goodbye) is None
            assert end.status is Status.DISCONNECTED
            assert end.remote_disconnected
            assert end.pending == 0


@scenario(quick=1, variants={"its own end": (0,), "the peer": (1,)})
@clause("QB-DISC-4", "QB-DISC-7", "QB-DISC-8")
def a_blocked_send_and_a_blocked_receive_are_both_released(
    run: Run, hangs_up: int
) -> None:
    """Both wait on one end; the disconnecting call does not wait, and both raise."""
    with queue_pair() as ends:
        left = ends[0]
        left.send(b"full")
        send = run.spawn(left.send, b"blocked")
        receive = run.spawn(left.receive)

        goodbye = run.spawn(ends[hangs_up].disconnect)

        for call in (send, receive):
            assert outcome(call, DisconnectedQueueError) is DisconnectedQueueError
        assert outcome(goodbye) is None
        assert left.disconnected()


@scenario()
@clause("QB-DISC-1", "QB-DISC-13")
def a_status_is_never_seen_to_go_back(run: Run) -> None:
    """Read between all the steps of others, each end's status moves forward only."""
    order = list(Status)
    with queue_pair() as (left, right):

        def watch() -> None:
            seen = []
            for _ in range(3):
                left.stats()  # lets others run
                seen.append(
                    (
                        order.index(left.status),
                        order.index(right.status),
                        left.remote_disconnected,
                        right.remote_disconnected,
                    )
                )
            for column in zip(*seen, strict=True):
                assert list(column) == sorted(column)

        def talk() -> None:
            right.send(b"1")
            right.disconnect()

        def listen() -> None:
            left.receive()
            left.disconnect()

        for function in (watch, talk, listen):
            run.spawn(function)
        run.join()


@scenario()
@clause("QB-DISC-10", "QB-RECV-9")
def the_first_goodbye_gives_the_reason(run: Run) -> None:
    """Two threads disconnect one end: the first reason stays."""
    with queue_pair() as (left, right):

        def hang_up(fault: RuntimeError) -> BaseException | None:
            left.disconnect(fault)
            return left._connection.cause(0)

        calls = [run.spawn(hang_up, RuntimeError(name)) for name in ("one", "two")]

        causes = [outcome(call) for call in calls]
        with pytest.raises(DisconnectedQueueError) as caught:
            right.receive()
        assert causes == [caught.value.__cause__] * 2


@scenario()
@clause("QB-DISC-2", "QB-DISC-6", "QB-DISC-12")
def a_send_while_the_last_message_is_taken(run: Run) -> None:
    """Before the last message is received a send is dropped, after that it raises."""
    with queue_pair() as (left, right):
        right.send(b"last")
        right.disconnect()
        receive = run.spawn(left.receive)
        send = run.spawn(left.send, b"late")

        assert outcome(receive) == b"last"
        assert left.disconnected()
        dropped = not failed(send)
        assert left.stats().half_disconnected == dropped
        with pytest.raises(DisconnectedQueueError):
            left.send(b"later still")


@scenario(quick=1)
@clause("QB-DISC-5", "QB-DISC-14", "QB-PY-2")
def iterating_ends_with_the_last_message(run: Run) -> None:
    """Two threads iterate over one end: each message comes once, then both stop."""
    with queue_pair() as (left, right):

        def talk() -> None:
            left.send(b"1")
            left.send(b"2")
            left.disconnect()

        listeners = [
            run.spawn(partial(list[bytes], right), name="listener") for _ in range(2)
        ]
        run.spawn(talk)
        run.join()

        one, other = (listener.result for listener in listeners)
        assert sorted(one + other) == [b"1", b"2"]
        assert sorted(one) == one
        assert sorted(other) == other


@scenario()
@clause("QB-DISC-11", "QB-DISC-14")
def what_is_discarded_is_counted_and_seen(run: Run) -> None:
    """A send against its peer's disconnect: discarded, dropped or rejected."""
    with queue_pair(2) as (left, right):
        left.send(b"there")
        send = run.spawn(left.send, b"late")
        goodbye = run.spawn(right.disconnect)

        refused = failed(send)
        goodbye.join()

        counters = left.stats()
        assert counters.sent == 2 - refused == counters.discarded
        assert right.pending == 0
        with pytest.raises(DisconnectedQueueError):
            left.send(b"later")


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
