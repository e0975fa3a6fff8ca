"""QB-DISC, the second half: racing disconnects. One byte a message, as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario(style=Style.RACE)
@clause("QB-DISC-1")
def an_end_never_comes_back(stage: Stage) -> None:
    """A look in the middle of a disconnect: disconnected() never turns false."""
    left, right = stage.pair()
    left.send(b"u")

    def look(end: Any) -> list[bool]:
        return [end.disconnected() for _ in range(3)]

    looks = [stage.spawn(look, end) for end in (left, right)]
    hang_up = stage.spawn(left.disconnect)
    reader = stage.spawn(stage.drain, right)

    for seen in stage.values(*looks):
        expect(seen, sorted(seen), "disconnected(), looked at three times")
    stage.value(hang_up)
    stage.value(reader)
    expect([left.disconnected(), right.disconnected()], [True, True], "at the end")


@scenario(style=Style.RACE)
@clause("QB-DISC-4")
def a_local_disconnect_against_a_send(stage: Stage) -> None:
    """At every point of a send that must wait, a disconnect of its end ends it."""
    left, right = stage.pair(capacity=1)

    def send_all() -> None:
        for _ in range(stage.plenty()):
            left.send(b"s")

    sender = stage.spawn(send_all)
    stage.value(stage.spawn(left.disconnect))

    stage.join(sender)
    if sender.error is not None:
        stage.raises(None, sender)
    stage.drain(right)


@scenario(style=Style.RACE)
@clause("QB-DISC-4")
def a_local_disconnect_against_a_receive(stage: Stage) -> None:
    """At every point of a receive, a disconnect of its own end releases it."""
    left, _ = stage.pair()

    receive = stage.spawn(left.receive)
    stage.value(stage.spawn(left.disconnect))

    stage.raises(None, receive)


@scenario(style=Style.RACE)
@clause("QB-DISC-7")
def a_remote_disconnect_against_a_receive(stage: Stage) -> None:
    """At every point of a receive, a disconnect of the peer releases it."""
    left, right = stage.pair()

    receive = stage.spawn(left.receive)
    stage.value(stage.spawn(right.disconnect))

    stage.raises(None, receive)


@scenario("bounded", style=Style.RACE)
@clause("QB-DISC-7")
def a_remote_disconnect_against_a_send(stage: Stage) -> None:
    """At every point of a send that must wait, a disconnect of the peer ends it."""
    left, right, _ = stage.full_pair()

    send = stage.spawn(left.send, b"w")
    stage.value(stage.spawn(right.disconnect))

    stage.raises(None, send)


@scenario(style=Style.RACE)
@clause("QB-DISC-9")
def both_hang_up_at_once(stage: Stage) -> None:
    """Both ends disconnect at the same time: both calls return, both ends are done."""
    ends = stage.pair()

    hang_ups = [stage.spawn(end.disconnect) for end in ends]

    stage.values(*hang_ups)
    for end in ends:
        expect(end.disconnected(), True, "disconnected() after both hung up")
        stage.refuses(None, end.receive)
        stage.refuses(None, end.send, b"d")


@scenario(style=Style.RACE)
@clause("QB-DISC-9")
def both_hang_up_with_receives_waiting(stage: Stage) -> None:
    """Both disconnect while a receive waits at each end: no other error comes out."""
    ends = stage.pair()
    receives = [stage.spawn(end.receive) for end in ends]

    hang_ups = [stage.spawn(end.disconnect) for end in ends]

    stage.values(*hang_ups)
    stage.raises(None, *receives)


@scenario("bounded", style=Style.RACE)
@clause("QB-DISC-9")
def both_hang_up_with_a_send_waiting(stage: Stage) -> None:
    """Both disconnect while a send waits for room: no other error comes out."""
    left, right, _ = stage.full_pair()
    right.send(b"u")
    send = stage.spawn(left.send, b"w")
    stage.waits(send)

    hang_ups = [stage.spawn(end.disconnect) for end in (left, right)]

    stage.values(*hang_ups)
    stage.raises(None, send)
    expect([left.disconnected(), right.disconnected()], [True, True], "disconnected()")


@scenario(style=Style.RACE)
@clause("QB-DISC-10")
def many_hang_up_one_end(stage: Stage) -> None:
    """disconnect() from several threads at once returns to all of them."""
    left, right = stage.pair()

    hang_ups = [stage.spawn(left.disconnect) for _ in range(4)]

    stage.values(*hang_ups)
    expect([left.disconnected(), right.disconnected()], [True, True], "disconnected()")


@scenario(style=Style.RACE)
@clause("QB-DISC-14")
def no_operation_succeeds_after_a_failure(stage: Stage) -> None:
    """Once a send on an end was refused, every later one is, whoever hung up."""
    for hangs_up in (0, 1):
        ends = stage.pair(capacity=4)

        def send(end: Any = ends[0]) -> list[bool]:
            went = []
            for _ in range(2):
                try:
                    end.send(b"s")
                    went.append(True)
                except stage.disconnected_error:
                    went.append(False)
            return went

        sender = stage.spawn(send)
        stage.value(stage.spawn(ends[hangs_up].disconnect))
        late = stage.spawn(ends[0].send, b"l")

        went = stage.value(sender)
        expect(went, sorted(went, reverse=True), "whether two sends in a row went")
        stage.raises(None, late)


@scenario()
@clause("QB-DISC-15")
def as_many_receives_return_as_there_are_messages(stage: Stage) -> None:
    """n receives, k messages, a goodbye: k return and n - k raise."""
    for messages in (0, 1, 2):
        _share_out(stage, messages, settle=True)


@scenario(style=Style.RACE)
@clause("QB-DISC-15")
def a_goodbye_among_receivers_loses_nothing(stage: Stage) -> None:
    """In every interleaving of 3 receives, 2 messages and a goodbye, 2 return."""
    _share_out(stage, 2, settle=False)


def _share_out(stage: Stage, messages: int, *, settle: bool) -> None:
    left, right = stage.pair(capacity=2)
    receives = [stage.spawn(right.receive) for _ in range(3)]
    if settle:
        stage.waits(*receives)

    for number in range(messages):
        left.send(b"%d" % number)
    left.disconnect()

    stage.join(*receives)
    returned = [call.value for call in receives if call.error is None]
    wanted = [b"%d" % number for number in range(messages)]
    expect(sorted(returned), wanted, "received by three receives together")
    stage.raises(None, *(call for call in receives if call.error is not None))
    require(right.disconnected(), "disconnected() is false with nothing left to read")
