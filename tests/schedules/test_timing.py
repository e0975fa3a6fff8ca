"""QB-TIME: deadlines against success and disconnects, on the virtual clock."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    DisconnectedQueueError,
    MessageQueue,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.schedules.outcome import result
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run, Spawned

LIMIT_S = 1.0


def _timed(
    run: Run, call: Callable[..., object], *args: object
) -> Spawned[tuple[object, float]]:
    """Make a call with a timeout; return its outcome and the time."""

    def timed() -> tuple[object, float]:
        try:
            value = call(*args, timeout=LIMIT_S)
        except (SendTimeoutError, ReceiveTimeoutError, DisconnectedQueueError) as error:
            return type(error), run.now
        return value, run.now

    return run.spawn(timed, name=call.__name__)


def _at(run: Run, when: float, call: Callable[..., object], *args: object) -> float:
    """Make a call after that much time has passed; return when it returned."""
    run.sleep(when)
    call(*args)
    return run.now


def _send_now(end: MessageQueue, message: bytes) -> None:
    end.send(message, timeout=0)


def _send_many_now(end: MessageQueue, message: bytes) -> None:
    end.send_many([message], timeout=0)


SIDES = {
    f"{who} at {when} s": (which, when)
    for which, who in enumerate(("its own end", "the peer"))
    for when in (0.5, 1.0)
}


@scenario(variants=SIDES)
@clause("QB-TIME-5", "QB-TIME-2")
def a_receive_whose_time_runs_out_as_somebody_hangs_up(
    run: Run, which: int, when: float
) -> None:
    """A disconnect before the deadline wins; a timeout never comes early."""
    with queue_pair() as ends:
        receive = _timed(run, ends[0].receive)
        goodbye = run.spawn(_at, run, when, ends[which].disconnect)

        said, at = result(receive)
        done = result(goodbye)
        if said is ReceiveTimeoutError:
            assert at >= LIMIT_S
            assert done >= LIMIT_S
        else:
            assert said is DisconnectedQueueError


@scenario(variants=SIDES)
@clause("QB-TIME-5", "QB-TIME-6")
def a_send_whose_time_runs_out_as_somebody_hangs_up(
    run: Run, which: int, when: float
) -> None:
    """A disconnect before the deadline wins; no part of the message is left."""
    with queue_pair() as ends:
        left, right = ends
        left.send(b"full")
        send = _timed(run, left.send, b"late")
        goodbye = run.spawn(_at, run, when, ends[which].disconnect)

        said, at = result(send)
        done = result(goodbye)
        if said is SendTimeoutError:
            assert at >= LIMIT_S
            assert done >= LIMIT_S
        else:
            assert said is DisconnectedQueueError
        assert left.stats().sent == 1
        if which == 0:
            assert list(right) == [b"full"]


@scenario()
@clause("QB-TIME-5", "QB-TIME-6")
def a_send_whose_time_runs_out_as_room_is_made(run: Run) -> None:
    """Stored or expired: the receiver and the sender agree about it."""
    with queue_pair() as (left, right):
        left.send(b"0")
        send = _timed(run, left.send, b"1")
        receive = run.spawn(_at, run, LIMIT_S, right.receive)

        said, at = result(send)
        result(receive)
        assert right.pending == (said is None)
        assert said is None or (said is SendTimeoutError and at >= LIMIT_S)


@scenario(quick=1)
@clause("QB-TIME-7", "QB-TIME-2")
def two_receives_expire_but_for_one_message(run: Run) -> None:
    """One message, two receives with one deadline: neither loses it."""
    with queue_pair() as (left, right):
        receives = [_timed(run, right.receive) for _ in range(2)]
        send = run.spawn(_at, run, LIMIT_S, left.send, b"1")

        ends = [result(receive) for receive in receives]
        result(send)
        taken = [said for said, _ in ends if said == b"1"]
        late = [at for said, at in ends if said is ReceiveTimeoutError]
        assert len(taken) + right.pending == 1
        assert len(taken) + len(late) == 2
        assert all(at >= LIMIT_S for at in late)


@scenario(variants={"one": (_send_now,), "many": (_send_many_now,)})
@clause("QB-TIME-8", "QB-BULK-1")
def nothing_is_full_and_empty_at_once(
    run: Run, send: Callable[[MessageQueue, bytes], object]
) -> None:
    """Capacity 1, a receive under way: a buffer found empty has room at once."""
    with queue_pair() as (left, right):
        left.send(b"1")

        def look(first: Callable[[], object], then: Callable[[], object]) -> None:
            try:
                first()
            except (ReceiveTimeoutError, SendTimeoutError):
                then()  # must not time out as well

        receive = run.spawn(right.receive)
        looks = [
            run.spawn(look, right.receive_nowait, partial(send, left, b"2")),
            run.spawn(look, partial(send, left, b"3"), lambda: None),
        ]
        for one in looks:
            one.join()
        run.settle()
        if not receive.done:
            left.send(b"4")
        assert result(receive) in {b"1", b"2", b"3", b"4"}
        assert looks[1].error is None
        error = looks[0].error
        if error is not None:
            # Only because the other call has filled the buffer that this one found
            # empty.
            assert isinstance(error, SendTimeoutError)
            assert right.pending == 1


@scenario()
@clause("QB-TIME-3", "QB-TIME-2")
def traffic_does_not_move_a_deadline(run: Run) -> None:
    """A receive that others overtake repeatedly times out at its one deadline."""
    with queue_pair() as (left, right):
        patient = _timed(run, right.receive)

        def chatter() -> int:
            got = 0
            for _ in range(2):
                left.send(b"m")
                try:
                    right.receive(timeout=0)
                except ReceiveTimeoutError:
                    continue
                got += 1
            return got

        talk = run.spawn(chatter)

        said, at = result(patient)
        got = result(talk)
        if said is ReceiveTimeoutError:
            assert at == LIMIT_S
        else:
            assert said == b"m"
        assert got + (said == b"m") + right.pending == 2


def _drained(end: MessageQueue) -> list[bytes]:
    """Return the messages that have arrived."""
    return end.receive_many(timeout=0) if end.pending else []


@scenario(variants={"0": (0.0,), "1": (1.0,)})
@clause("QB-TIME-6", "QB-BULK-1")
def many_sent_in_time_are_counted(run: Run, when: float) -> None:
    """`send_many` with a deadline returns how many were accepted by then."""
    with queue_pair() as (left, right):
        messages = [b"1", b"2", b"3"]
        send = run.spawn(
            partial(left.send_many, messages, timeout=LIMIT_S), name="send_many"
        )
        receive = run.spawn(_at, run, when, right.receive)

        count = result(send)
        result(receive)
        assert _drained(right) == messages[1:count]
        assert left.stats().sent == count


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
