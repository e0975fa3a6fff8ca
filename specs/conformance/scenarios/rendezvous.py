"""QB-RDV: how accept and connect are matched."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.call import Call
    from specs.conformance.stage import Stage


@scenario()
@clause("QB-RDV-1")
def both_wait_and_both_get_an_end(stage: Stage) -> None:
    """Accept and connect wait for each other; what either sends first arrives."""
    b, a = stage.brokers("b", "a")
    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)
    left, right = stage.value(stage.spawn(a.connect, "b", 1)), stage.value(accept)

    for sender, receiver in ((left, right), (right, left)):
        expect(sender.disconnected(), False, "disconnected() of a new end")
        sender.send(b"first")
        expect(receiver.receive(), b"first", "received through a new connection")


@scenario()
@clause("QB-RDV-2")
def connect_may_come_first(stage: Stage) -> None:
    """A connect that came before its accept waits and is matched by it."""
    b, a = stage.brokers("b", "a")
    connect = stage.spawn(a.connect, "b", 1)
    stage.waits(connect)

    accept = stage.spawn(b.accept, 1)

    stage.talk(stage.value(accept), stage.value(connect))


@scenario()
@clause("QB-RDV-2")
def accept_may_come_first(stage: Stage) -> None:
    """An accept that came before its connect waits and is matched by it."""
    b, a = stage.brokers("b", "a")
    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)

    connect = stage.spawn(a.connect, "b", 1)

    stage.talk(stage.value(accept), stage.value(connect))


@scenario(style=Style.RACE)
@clause("QB-RDV-2")
def accept_and_connect_at_once(stage: Stage) -> None:
    """In no interleaving of one accept and one connect does either stay waiting."""
    b, a = stage.brokers("b", "a")
    connect = stage.spawn(a.connect, "b", 1)
    accept = stage.spawn(b.accept, 1)

    stage.talk(stage.value(accept), stage.value(connect))


@scenario()
@clause("QB-RDV-3")
def connects_do_not_meet(stage: Stage) -> None:
    """Two connects alone both go on waiting."""
    b, a, c = stage.brokers("b", "a", "c")
    connects = [stage.spawn(a.connect, "b", 1), stage.spawn(c.connect, "b", 1)]
    stage.waits(*connects)

    accepts = [stage.spawn(b.accept, 1), stage.spawn(b.accept, 1)]
    stage.values(*connects, *accepts)


@scenario()
@clause("QB-RDV-3")
def accepts_do_not_meet(stage: Stage) -> None:
    """Two accepts alone both go on waiting."""
    b, a = stage.brokers("b", "a")
    accepts = [stage.spawn(b.accept, 1), stage.spawn(b.accept, 1)]
    stage.waits(*accepts)

    connects = [stage.spawn(a.connect, "b", 1), stage.spawn(a.connect, "b", 1)]
    stage.values(*connects, *accepts)


@scenario()
@clause("QB-RDV-4")
def name_and_port_must_agree(stage: Stage) -> None:
    """Another port or another broker is no match."""
    b, a, c = stage.brokers("b", "a", "c")
    connect = stage.spawn(a.connect, "b", 1)
    others = [stage.spawn(b.accept, 2), stage.spawn(c.accept, 1)]
    stage.waits(connect, *others)

    accept = stage.spawn(b.accept, 1)
    stage.talk(stage.value(accept), stage.value(connect))
    stage.waits(*others)
    matches = [stage.spawn(a.connect, "b", 2), stage.spawn(a.connect, "c", 1)]
    for left, right in zip(others, matches, strict=True):
        stage.talk(stage.value(left), stage.value(right))


@scenario("factory().channels", "broker.close", "factory().closed_error")
@clause("QB-RDV-4")
def kinds_must_agree(stage: Stage) -> None:
    """A connect for bytes is no match for an accept for messages."""
    b = stage.broker("b")
    c = stage.world.channels("c")
    accept = stage.spawn(b.accept, 1)
    stage.waits(accept)

    connect = stage.spawn(c.connect, "b", 1)
    stage.waits(accept)

    matched = connect.done and connect.value is not None
    require(not matched, f"{connect.told()}: a channel, matched with a queue")
    c.close()
    b.close()
    stage.raises(stage.error("closed_error"), accept)
    stage.settle(connect)
    require(connect.done, f"{connect.told()} after both brokers were closed")


@scenario()
@clause("QB-RDV-4")
def scripts_agree_with_the_model(stage: Stage) -> None:
    """Calls on two brokers and two ports, one by one: it is foretold who waits."""
    rng = random.Random(4)  # noqa: S311 - a fixed script, not a secret
    stage.brokers("a", "b", "c")
    for _ in range(2 * stage.volume):
        places: dict[tuple[str, int], _Place] = {}
        for _ in range(8):
            place = rng.choice("bc"), rng.choice((1, 2))
            places.setdefault(place, _Place(stage, *place)).come(rng.random() < 0.5)
            for each in places.values():
                each.check()
        for each in places.values():
            each.finish()


class _Place:
    """One port of one broker, and the calls on it: the model is two numbers."""

    def __init__(self, stage: Stage, name: str, port: int) -> None:
        self._stage, self._name, self._port = stage, name, port
        self._accepts: list[Call] = []
        self._connects: list[Call] = []

    def come(self, accepts: bool) -> None:
        """Start one more accept or connect."""
        stage, name, port = self._stage, self._name, self._port
        if accepts:
            self._accepts.append(stage.spawn(stage.broker(name).accept, port))
        else:
            call = stage.spawn(stage.broker("a").connect, name, port)
            self._connects.append(call)

    def check(self) -> None:
        """Require as many matches as there are calls in the smaller role."""
        matches = min(len(self._accepts), len(self._connects))
        self._stage.settle(*self._accepts[:matches], *self._connects[:matches])
        for what, calls in (("accepts", self._accepts), ("connects", self._connects)):
            done = sum(call.done for call in calls)
            place = f"at {self._name!r}, port {self._port}"
            expect(done, matches, f"{what} that returned, of {len(calls)} {place}")

    def finish(self) -> None:
        """Start the missing opposites; each end must be of this place."""
        while (missing := len(self._connects) - len(self._accepts)) != 0:
            self.come(missing > 0)
        place = f"{self._name} {self._port}".encode()
        for end in self._stage.values(*self._connects):
            end.send(place)
        for end in self._stage.values(*self._accepts):
            got = self._stage.at_once(end.receive)
            expect(got, place, "where the connect came to, against the accept's place")


@scenario(style=Style.RACE)
@clause("QB-RDV-5")
def racing_callers_are_paired_off(stage: Stage) -> None:
    """Accepts and connects that race are matched one to one, both ways."""
    b, a = stage.brokers("b", "a")
    connects = [stage.spawn(a.connect, "b", 1) for _ in range(2)]
    accepts = [stage.spawn(b.accept, 1) for _ in range(2)]
    lefts, rights = stage.values(*accepts), stage.values(*connects)

    for number, end in enumerate(lefts):
        end.send(b"left %d" % number)
    for number, end in enumerate(rights):
        end.send(b"right %d" % number)
    heard_left = [int(stage.at_once(end.receive)[-1:]) for end in lefts]
    heard_right = [int(stage.at_once(end.receive)[-1:]) for end in rights]

    expect(sorted(heard_left), [0, 1], "connectors heard by the acceptors")
    mirrored = [heard_right[connector] for connector in heard_left]
    expect(mirrored, [0, 1], "acceptors heard by the connectors each of them hears")


@scenario()
@clause("QB-RDV-13")
def an_unknown_name_gives_none_at_once(stage: Stage) -> None:
    """Connect to a name nobody has returns None without waiting for anybody."""
    a = stage.broker("a")

    missed = stage.spawn(a.connect, "b", 1)
    stage.settle()
    require(missed.done, f"{missed.told()} for a broker that does not exist")
    expect(stage.value(missed), None, "connect to an unknown name")

    # A broker registered later does not change earlier answers (QB-RDV-13).
    accept = stage.spawn(stage.broker("b").accept, 1)
    stage.waits(accept)
    stage.talk(stage.soon(a.connect, "b", 1), stage.value(accept))


@scenario("broker.connect(required)")
@clause("QB-RDV-14")
def a_required_broker_that_is_unknown_is_an_error(stage: Stage) -> None:
    """connect(required=True) raises for an unknown name and connects to a known one."""
    a = stage.broker("a")

    stage.refuses(stage.error("unknown_broker_error"), a.connect, "b", 1, required=True)

    accept = stage.spawn(stage.broker("b").accept, 1)
    connect = stage.spawn(a.connect, "b", 1, required=True)
    stage.talk(stage.value(accept), stage.value(connect))
