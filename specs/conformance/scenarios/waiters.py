"""QB-RDV, the second half: several waiters, and waiters that withdraw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario()
@clause("QB-RDV-6")
def connects_are_served_in_order(stage: Stage) -> None:
    """Of several connects on one port the one that came first is served first."""
    b, a = stage.brokers("b", "a")
    connects = []
    for _ in range(3):
        connects.append(stage.spawn(a.connect, "b", 1))
        stage.settle()

    for number, connect in enumerate(connects):
        left = stage.soon(b.accept, 1)
        stage.settle(connect)
        require(connect.done, f"connect number {number} was passed over by a later one")
        stage.talk(left, stage.value(connect))


@scenario()
@clause("QB-RDV-7")
def waiters_on_other_ports_are_in_nobodys_way(stage: Stage) -> None:
    """With waiters on other ports of a broker, a match on one port completes."""
    b, a = stage.brokers("b", "a")
    accepts = [stage.spawn(b.accept, port) for port in (1, 2, 3)]
    connects = [stage.spawn(a.connect, "b", port) for port in (4, 5, 6)]
    stage.waits(*accepts, *connects)

    # The last waiter, then the first, then the middle one: an implementation that wakes
    # just one sleeper of a broker wakes the wrong one in one of these.
    for index in (2, 0, 1):
        began = stage.now()
        connect = stage.spawn(a.connect, "b", (1, 2, 3)[index])
        accept = stage.spawn(b.accept, (4, 5, 6)[index])
        stage.promptly(began, accepts[index], connect, accept, connects[index])
        stage.talk(stage.value(accepts[index]), stage.value(connect))
        stage.talk(stage.value(accept), stage.value(connects[index]))


@scenario()
@clause("QB-RDV-7")
def a_waiting_connect_does_not_freeze_its_broker(stage: Stage) -> None:
    """While a connect waits, its broker connects elsewhere, and accepts."""
    _b, a, c = stage.brokers("b", "a", "c")
    waiting = stage.spawn(a.connect, "b", 1)
    stage.waits(waiting)

    out = stage.spawn(a.connect, "c", 1)
    stage.talk(stage.soon(c.accept, 1), stage.value(out))
    back = stage.spawn(c.connect, "a", 1)
    stage.talk(stage.soon(a.accept, 1), stage.value(back))

    stage.waits(waiting)
    stage.talk(stage.soon(stage.broker("b").accept, 1), stage.value(waiting))


@scenario()
@clause("QB-RDV-8")
def a_third_caller_meets_no_dead_match(stage: Stage) -> None:
    """After a match the next caller on the port waits for an opposite of its own."""
    b, a = stage.brokers("b", "a")
    first = stage.pair()
    connect = stage.spawn(a.connect, "b", 1)
    stage.waits(connect)
    second = stage.soon(b.accept, 1), stage.value(connect)
    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)
    met = stage.soon(a.connect, "b", 1)
    third = stage.value(accept), met

    for left, right in (first, second, third):
        stage.talk(left, right)


@scenario(style=Style.RACE)
@clause("QB-RDV-8")
def a_port_serves_again_and_again(stage: Stage) -> None:
    """Matches in a row on one port each make a fresh, working connection."""
    for _ in range(3):
        left, right = stage.pair()
        stage.talk(left, right)
        left.disconnect()
        stage.raises(None, stage.spawn(right.receive))


@scenario("broker.waiting_accepts", "broker.waiting_connects")
@clause("QB-RDV-8")
def counts_of_waiters_return_to_zero(stage: Stage) -> None:
    """What a broker says of its waiters is true before and after a match."""
    b, a = stage.brokers("b", "a")

    def counted() -> tuple[int, int]:
        return _total(b.waiting_accepts()), _total(b.waiting_connects())

    accepts = [stage.spawn(b.accept, 1), stage.spawn(b.accept, 2)]
    connect = stage.spawn(a.connect, "b", 3)
    stage.waits(*accepts, connect)
    expect(counted(), (2, 1), "waiting accepts and connects")

    stage.values(stage.spawn(a.connect, "b", 1), stage.spawn(a.connect, "b", 2))
    stage.values(*accepts, stage.spawn(b.accept, 3), connect)
    expect(counted(), (0, 0), "waiting accepts and connects")


def _total(waiting: Any) -> int:
    """Return the number of waiters, given as numbers by port or as a list."""
    return sum(waiting.values()) if isinstance(waiting, Mapping) else len(waiting)


@scenario()
@clause("QB-RDV-9")
def accepts_are_served_in_order(stage: Stage) -> None:
    """Of several accepts on one port the one that came first is served first."""
    b, a = stage.brokers("b", "a")
    accepts = []
    for _ in range(3):
        accepts.append(stage.spawn(b.accept, 1))
        stage.settle()

    for number, accept in enumerate(accepts):
        right = stage.soon(a.connect, "b", 1)
        stage.settle(accept)
        require(accept.done, f"accept number {number} was passed over by a later one")
        stage.talk(stage.value(accept), right)


@scenario("broker.accept(exclusive)", "factory().port_in_use_error")
@clause("QB-RDV-9")
def an_exclusive_accept_shares_with_nobody(stage: Stage) -> None:
    """An accept is refused if one of the two is exclusive; the first waits on."""
    b, a = stage.brokers("b", "a")
    in_use = stage.error("port_in_use_error")
    for first, second, refused in (
        (False, True, True),
        (True, False, True),
        (True, True, True),
        (False, False, False),
    ):
        earlier = stage.spawn(b.accept, 1, exclusive=first)
        stage.waits(earlier)
        if refused:
            stage.refuses(in_use, b.accept, 1, exclusive=second)
            stage.waits(earlier)
        else:
            later = stage.spawn(b.accept, 1, exclusive=second)
            stage.waits(earlier, later)
        right = stage.soon(a.connect, "b", 1)
        stage.talk(stage.value(earlier), right)
        if not refused:
            right = stage.soon(a.connect, "b", 1)
            stage.talk(stage.value(later), right)


@scenario(style=Style.RACE)
@clause("QB-RDV-10")
def a_broker_connects_to_itself(stage: Stage) -> None:
    """Two threads of one broker meet, on several brokers at once."""
    names = ("a", "b")
    accepts = [stage.spawn(stage.broker(name).accept, 1) for name in names]
    connects = [stage.spawn(stage.broker(name).connect, name, 1) for name in names]

    for accept, connect in zip(accepts, connects, strict=True):
        stage.talk(stage.value(accept), stage.value(connect))


@scenario("broker.accept(timeout)")
@clause("QB-RDV-11")
def an_accept_that_gave_up_is_met_by_nobody(stage: Stage) -> None:
    """After an accept timed out, a connect waits for another one."""
    b, a = stage.brokers("b", "a")
    gone = stage.spawn(b.accept, 1, timeout=0.1)
    stage.raises(stage.error("timeout_error"), gone)

    connect = stage.spawn(a.connect, "b", 1)
    stage.waits(connect)
    stage.talk(stage.soon(b.accept, 1), stage.value(connect))


@scenario("broker.connect(timeout)")
@clause("QB-RDV-11")
def a_connect_that_gave_up_is_met_by_nobody(stage: Stage) -> None:
    """After a connect timed out, an accept waits for another one."""
    b, a = stage.brokers("b", "a")
    gone = stage.spawn(a.connect, "b", 1, timeout=0.1)
    stage.raises(stage.error("timeout_error"), gone)

    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)
    right = stage.soon(a.connect, "b", 1)
    stage.talk(stage.value(accept), right)


class _StrikeError(Exception):
    """The error that the explorer raises in a waiter."""


@scenario("explorer")
@clause("QB-RDV-11")
def an_interrupted_waiter_is_met_by_nobody(stage: Stage) -> None:
    """After an exception struck a waiting accept or connect, it cannot be matched."""
    b, a = stage.brokers("b", "a")
    for lost, opposite, again in (
        ((b.accept, 1), (a.connect, "b", 1), (b.accept, 1)),
        ((a.connect, "b", 1), (b.accept, 1), (a.connect, "b", 1)),
    ):
        interrupted = stage.spawn(*lost)
        stage.waits(interrupted)
        stage.driver.interrupt(interrupted, _StrikeError("from outside"))
        stage.raises(_StrikeError, interrupted)

        waiter = stage.spawn(*opposite)
        stage.waits(waiter)
        stage.talk(stage.at_once(*again), stage.value(waiter))


@scenario(style=Style.CROWD)
@clause("QB-RDV-15")
def a_crowd_meets_on_one_broker(stage: Stage) -> None:
    """Many threads accept and connect on one broker, all are served, none twice."""
    threads, meetings = 16, 25 * stage.volume
    b, a = stage.brokers("b", "a")

    def serve(number: int) -> list[tuple[Any, bytes]]:
        ends = [b.accept(number % 4) for _ in range(meetings)]
        return [(end, end.receive()) for end in ends]

    def call(number: int) -> list[tuple[Any, bytes]]:
        said = []
        for turn in range(meetings):
            end, token = a.connect("b", number % 4), b"%d %d" % (number, turn)
            end.send(token)
            said.append((end, token))
        return said

    servers = [stage.spawn(serve, number) for number in range(threads)]
    callers = [stage.spawn(call, number) for number in range(threads)]

    heard = [each for part in stage.values(*servers) for each in part]
    said = [each for part in stage.values(*callers) for each in part]
    tokens = [sorted(token for _, token in each) for each in (heard, said)]
    expect(tokens[0], tokens[1], "tokens that crossed, each exactly once")
    for end, _ in heard + said:
        end.disconnect()


@scenario()
@clause("QB-RDV-17")
def a_port_is_a_number_of_31_bits(stage: Stage) -> None:
    """A port that is no int is a TypeError, one out of range a ValueError."""
    b, a = stage.brokers("b", "a")
    for port, kind in (
        ("1", TypeError),
        (1.0, TypeError),
        (None, TypeError),
        (True, TypeError),
        (-1, ValueError),
        (2**31, ValueError),
    ):
        stage.refuses(kind, b.accept, port)
        stage.refuses(kind, a.connect, "b", port)
    for port in (0, 2**31 - 1):
        stage.talk(*stage.pair(port))
