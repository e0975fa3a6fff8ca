"""QB-TIME: timeouts. The clock is the driver's, virtual under the explorer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario
from specs.conformance.stage import PROMPT_S, Stage

if TYPE_CHECKING:
    from specs.conformance.call import Call

RENDEZVOUS = ("broker.accept(timeout)", "broker.connect(timeout)")
QUEUE = ("queue.send(timeout)", "queue.receive(timeout)")
LIMIT_S = 0.2


@scenario(*RENDEZVOUS, *QUEUE)
@clause("QB-TIME-1")
def a_negative_timeout_is_refused(stage: Stage) -> None:
    """A negative timeout or NaN is a ValueError for all four operations."""
    left, _ = stage.pair()
    b, a = stage.brokers("b", "a")
    for timeout in (-1, -0.001, -math.inf, math.nan):
        stage.refuses(ValueError, left.send, b"m", timeout=timeout)
        stage.refuses(ValueError, left.receive, timeout=timeout)
        stage.refuses(ValueError, b.accept, 2, timeout=timeout)
        stage.refuses(ValueError, a.connect, "b", 2, timeout=timeout)


@scenario(*RENDEZVOUS, *QUEUE)
@clause("QB-TIME-1")
def an_endless_timeout_waits(stage: Stage) -> None:
    """None, infinity and what no lock can wait for mean no limit."""
    b, a = stage.brokers("b", "a")
    for timeout in (None, math.inf, 1e300):
        accept = stage.spawn(b.accept, 1, timeout=timeout)
        stage.waits(accept)
        right = stage.value(stage.spawn(a.connect, "b", 1, timeout=timeout))
        receive = stage.spawn(right.receive, timeout=timeout)
        stage.waits(receive)
        stage.at_once(stage.value(accept).send, b"m", timeout=timeout)
        expect(stage.value(receive), b"m", f"received with a timeout of {timeout}")


@scenario(*RENDEZVOUS, *QUEUE)
@clause("QB-TIME-1", "QB-TIME-2")
def a_timeout_of_zero_tries_once(stage: Stage) -> None:
    """With timeout=0 what cannot be done raises the timeout error at once."""
    left, _ = stage.pair()
    b, a = stage.brokers("b", "a")
    late = stage.error("timeout_error")

    stage.refuses(late, left.receive, timeout=0)
    stage.refuses(late, b.accept, 1, timeout=0)
    stage.refuses(late, a.connect, "b", 1, timeout=0)


@scenario(*RENDEZVOUS, *QUEUE)
@clause("QB-TIME-2")
def a_timeout_is_kept_to(stage: Stage) -> None:
    """Accept, connect and receive give up not before their deadline, promptly after."""
    left, _ = stage.pair()
    b, a = stage.brokers("b", "a")
    for limit_s in (LIMIT_S, 2 * LIMIT_S):
        _expires(stage, stage.spawn(_timed, stage, left.receive, limit_s), limit_s)
        _expires(stage, stage.spawn(_timed, stage, b.accept, limit_s, 1), limit_s)
        _expires(stage, stage.spawn(_timed, stage, a.connect, limit_s, "b", 1), limit_s)


@scenario("queue.send(timeout)", "bounded")
@clause("QB-TIME-2")
def a_timeout_of_a_send_is_kept_to(stage: Stage) -> None:
    """A send on a full buffer gives up not before its deadline, promptly after."""
    left, _, _ = stage.full_pair()

    _expires(stage, stage.spawn(_timed, stage, left.send, LIMIT_S, b"w"), LIMIT_S)


def _timed(stage: Stage, function: object, limit_s: float, *args: object) -> float:
    """Return how long the call took to raise the timeout error, in seconds."""
    began = stage.now()
    try:
        value = function(*args, timeout=limit_s)  # type: ignore[operator] # any method
    except stage.error("timeout_error"):
        return stage.now() - began
    raise AssertionError(f"returned {value!r}, it must time out")


def _expires(stage: Stage, call: Call, limit_s: float) -> None:
    took = stage.value(call)
    # A clock with a coarse tick may be one tick short.
    require(took >= limit_s - 1e-9, f"{took:.4g} s: {limit_s} s were to be waited")
    require(took <= limit_s + PROMPT_S, f"{took:.4g} s: {limit_s} s were to be waited")


@scenario("queue.receive(timeout)", spurious=1)
@clause("QB-TIME-3")
def wake_ups_do_not_move_the_deadline(stage: Stage) -> None:
    """With traffic against it a receive still gives up at its one deadline."""
    left, right = stage.pair()
    began = stage.now()
    receive = stage.spawn(_timed, stage, right.receive, 4 * LIMIT_S)
    stage.settle()

    # Up to the deadline and no longer: on a slow machine the expired receive stays
    # suspended for as long as other threads have work.
    while stage.now() - began < 3.5 * LIMIT_S:
        right.send(b"t")
        left.receive()
        stage.driver.pause(LIMIT_S)

    _expires(stage, receive, 4 * LIMIT_S)


@scenario(*RENDEZVOUS)
@clause("QB-TIME-4")
def who_expired_can_not_be_met(stage: Stage) -> None:
    """After an accept or a connect expired, the opposite call expires as well."""
    b, a = stage.brokers("b", "a")
    late = stage.error("timeout_error")

    stage.raises(late, stage.spawn(b.accept, 1, timeout=LIMIT_S))
    stage.raises(late, stage.spawn(a.connect, "b", 1, timeout=LIMIT_S))
    stage.raises(late, stage.spawn(b.accept, 1, timeout=LIMIT_S))

    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)
    right = stage.at_once(a.connect, "b", 1, timeout=0)
    stage.talk(stage.value(accept), right)


@scenario(*RENDEZVOUS, style=Style.RACE)
@clause("QB-TIME-4", "QB-TIME-5")
def expiry_against_match_is_all_or_nothing(stage: Stage) -> None:
    """A call that comes at the other's deadline: both get an end or both time out."""
    b, a = stage.brokers("b", "a")
    accept = stage.spawn(b.accept, 1, timeout=LIMIT_S)
    stage.driver.pause(LIMIT_S)
    connect = stage.spawn(a.connect, "b", 1, timeout=0)

    stage.join(accept, connect)

    if accept.error is None and connect.error is None:
        stage.talk(accept.value, connect.value)
    else:
        stage.raises(stage.error("timeout_error"), accept, connect)


@scenario(*QUEUE)
@clause("QB-TIME-5")
def success_comes_first_then_the_goodbye(stage: Stage) -> None:
    """With timeout=0: a message is received; without one the goodbye wins."""
    left, right = stage.pair()
    left.send(b"m")
    left.disconnect()

    expect(stage.at_once(right.receive, timeout=0), b"m", "received with timeout=0")
    stage.refuses(None, right.receive, timeout=0)
    stage.refuses(None, right.send, b"d", timeout=0)


@scenario("queue.send(timeout)", "bounded")
@clause("QB-TIME-5")
def a_goodbye_comes_before_a_full_buffer(stage: Stage) -> None:
    """With timeout=0 on a full buffer: half drops, disconnected raises that."""
    for unread in (0, 1):
        left, right, _ = stage.full_pair()
        for _ in range(unread):
            right.send(b"u")
        right.disconnect()
        if unread:
            stage.at_once(left.send, b"d", timeout=0)
        else:
            stage.refuses(None, left.send, b"d", timeout=0)


@scenario("queue.send(timeout)", "bounded")
@clause("QB-TIME-6")
def an_expired_send_left_nothing(stage: Stage) -> None:
    """A send that timed out is never received; later messages keep their place."""
    left, right, sent = stage.full_pair()
    late = stage.error("timeout_error")
    stage.raises(late, stage.spawn(left.send, b"expired", timeout=LIMIT_S))
    stage.refuses(late, left.send, b"expired", timeout=0)

    waiting = stage.spawn(left.send, b"after")
    stage.waits(waiting)

    received = [right.receive() for _ in range(len(sent) + 1)]
    expect(received, [*sent, b"after"], "received after a send had expired")
    stage.value(waiting)


@scenario("queue.send(timeout)", "bounded", style=Style.RACE)
@clause("QB-TIME-6", "QB-TIME-5")
def expiry_against_room_is_all_or_nothing(stage: Stage) -> None:
    """Room made at a send's deadline: its message is received, or the send raised."""
    left, right, sent = stage.full_pair()
    send = stage.spawn(left.send, b"edge", timeout=LIMIT_S)
    stage.driver.pause(LIMIT_S)
    expect(right.receive(), sent[0], "received")

    stage.join(send)
    left.disconnect()

    if send.error is not None:
        stage.raises(stage.error("timeout_error"), send)
    rest = sent[1:] + ([] if send.error else [b"edge"])
    expect(stage.drain(right), rest, "received after a send at its deadline")


@scenario("queue.receive(timeout)", style=Style.RACE)
@clause("QB-TIME-7")
def an_expired_receive_lost_nothing(stage: Stage) -> None:
    """A message sent at a receive's deadline is returned by it or by the next one."""
    left, right = stage.pair()
    receive = stage.spawn(right.receive, timeout=LIMIT_S)
    stage.driver.pause(LIMIT_S)
    stage.value(stage.spawn(left.send, b"edge"))

    stage.join(receive)
    left.disconnect()

    if receive.error is not None:
        stage.raises(stage.error("timeout_error"), receive)
    received = stage.drain(right) + ([] if receive.error else [receive.value])
    expect(received, [b"edge"], "received by the two together")


@scenario(*RENDEZVOUS, *QUEUE)
@clause("QB-TIME-8")
def what_can_be_done_at_once_is_done(stage: Stage) -> None:
    """With timeout=0 each of the four succeeds if it could succeed at that instant."""
    b, a = stage.brokers("b", "a")
    for first, second in (
        ((b.accept, 1), (a.connect, "b", 1)),
        ((a.connect, "b", 1), (b.accept, 1)),
    ):
        waiting = stage.spawn(*first)
        stage.waits(waiting)
        found = stage.at_once(*second, timeout=0)
        met = stage.value(waiting)
        stage.at_once(found.send, b"m", timeout=0)
        expect(stage.at_once(met.receive, timeout=0), b"m", "received")


@scenario("broker.accept(capacity)", *QUEUE, style=Style.RACE)
@clause("QB-TIME-8")
def no_buffer_is_full_and_empty_at_once(stage: Stage) -> None:
    """Capacity 1, a receive in progress: found empty, there is room for a send."""
    left, right = stage.pair(capacity=1)
    left.send(b"1")

    def look() -> bytes | None:
        try:
            taken: bytes | None = right.receive(timeout=0)
        except stage.error("timeout_error"):
            taken = None
        # In both cases the message is no longer in the buffer.
        left.send(b"2", timeout=0)
        return taken

    receive = stage.spawn(right.receive)
    looker = stage.spawn(look)

    taken = stage.value(looker)
    received = [stage.value(receive)] + ([] if taken is None else [taken])
    left.disconnect()
    received += stage.drain(right)
    expect(sorted(received), [b"1", b"2"], "received by all together")


@scenario("broker.connect(timeout)")
@clause("QB-TIME-9")
def an_unknown_name_does_not_use_the_timeout(stage: Stage) -> None:
    """Connect to an unknown name returns None at once, whatever its timeout."""
    a = stage.broker("a")
    for timeout in (0, LIMIT_S, 1000):
        missed = stage.at_once(a.connect, "nobody", 1, timeout=timeout)
        expect(missed, None, f"connect to an unknown name, timeout={timeout}")
