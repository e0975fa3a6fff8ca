"""QB-FIFO: order, nothing lost, nothing shared."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


def _send_all(end: Any, messages: list[bytes]) -> None:
    for message in messages:
        end.send(message)


def _receive(end: Any, count: int) -> list[bytes]:
    return [end.receive() for _ in range(count)]


@scenario(style=Style.RACE)
@clause("QB-FIFO-1")
def each_direction_keeps_its_order(stage: Stage) -> None:
    """Both directions deliver in the order of the sends, also if used at once."""
    ends = stage.pair(capacity=2)
    messages = [b"%d" % number for number in range(3)]
    senders = [stage.spawn(_send_all, end, messages) for end in ends]
    receivers = [stage.spawn(_receive, end, len(messages)) for end in ends]

    for received in stage.values(*receivers):
        expect(received, messages, "received in one direction")
    stage.values(*senders)


@scenario(style=Style.CROWD)
@clause("QB-FIFO-1")
def a_long_stream_keeps_its_order(stage: Stage) -> None:
    """Ten thousand messages arrive in order."""
    left, right = stage.pair()
    messages = [b"%d" % number for number in range(10_000 * stage.volume)]
    sender = stage.spawn(_send_all, left, messages)

    received = _receive(right, len(messages))
    stage.value(sender)
    wrong = [
        n
        for n, pair in enumerate(zip(received, messages, strict=True))
        if len({*pair}) > 1
    ]
    expect(wrong[:3], [], "places at which the wrong message came")


@scenario(style=Style.RACE)
@clause("QB-FIFO-2")
def a_send_that_returned_goes_first(stage: Stage) -> None:
    """If one send returned before another was called, it is received before it."""
    left, right = stage.pair(capacity=3)
    noise = stage.spawn(left.send, b"noise")

    stage.value(stage.spawn(left.send, b"first"))
    stage.value(stage.spawn(left.send, b"second"))
    stage.value(noise)

    received = _receive(right, 3)
    ordered = [message for message in received if message != b"noise"]
    expect(ordered, [b"first", b"second"], "the two sends that did not overlap")


@scenario("bounded")
@clause("QB-FIFO-2")
def what_waited_comes_after_what_lay_there(stage: Stage) -> None:
    """Messages in the buffer are received before messages that waited for room."""
    left, right, sent = stage.full_pair(capacity=2)
    waiting = stage.spawn(left.send, b"waited")
    stage.waits(waiting)

    expect(_receive(right, len(sent) + 1), [*sent, b"waited"], "received")
    stage.value(waiting)


@scenario(style=Style.RACE)
@clause("QB-FIFO-3")
def nothing_is_lost_between_many(stage: Stage) -> None:
    """Two senders, two receivers: exactly the sent messages are received."""
    left, right = stage.pair(capacity=1)
    batches = [[b"a1", b"a2"], [b"b1", b"b2"]]
    senders = [stage.spawn(_send_all, left, batch) for batch in batches]
    receivers = [stage.spawn(_receive, right, 2) for _ in range(2)]

    received = [*chain(*stage.values(*receivers))]
    stage.values(*senders)
    expect(sorted(received), sorted(chain(*batches)), "received by the two together")


@scenario(style=Style.CROWD)
@clause("QB-FIFO-3")
def nothing_is_lost_in_a_crowd(stage: Stage) -> None:
    """Four senders and four receivers on one end each, thousands of messages."""
    left, right = stage.pair()
    share = 1000 * stage.volume
    batches = [[b"%d %d" % (who, n) for n in range(share)] for who in range(4)]
    senders = [stage.spawn(_send_all, left, batch) for batch in batches]
    receivers = [stage.spawn(_receive, right, share) for _ in range(4)]

    received = [*chain(*stage.values(*receivers))]
    stage.values(*senders)
    expect(len(received), 4 * share, "number of messages received")
    expect(set(received), {m for batch in batches for m in batch}, "messages received")


@scenario("bounded")
@clause("QB-FIFO-4")
def a_full_direction_does_not_block_the_other(stage: Stage) -> None:
    """While one direction is full, with a send waiting on it, the other one flows."""
    left, right, sent = stage.full_pair()
    stuck = stage.spawn(left.send, b"stuck")
    stage.waits(stuck)

    for number in range(3):
        stage.at_once(right.send, b"%d" % number)
        expect(stage.at_once(left.receive), b"%d" % number, "received against it")

    stage.waits(stuck)
    expect(_receive(right, len(sent) + 1), [*sent, b"stuck"], "received at the end")
    stage.value(stuck)


@scenario()
@clause("QB-FIFO-4")
def directions_do_not_mix(stage: Stage) -> None:
    """Messages that lie in both directions at once come out at their own ends."""
    left, right = stage.pair(capacity=2)
    for message in (b"1", b"2"):
        left.send(b"right " + message)
        right.send(b"left " + message)

    expect(_receive(right, 2), [b"right 1", b"right 2"], "received on the right")
    expect(_receive(left, 2), [b"left 1", b"left 2"], "received on the left")


@scenario()
@clause("QB-FIFO-5")
def connections_do_not_mix(stage: Stage) -> None:
    """Two connections between the same brokers carry their own messages only."""
    pairs = [stage.pair(1, capacity=2), stage.pair(1, capacity=2)]
    for turn in (b"1", b"2"):
        for name, (left, right) in zip((b"x", b"y"), pairs, strict=True):
            left.send(name + turn)
            right.send(turn + name)

    expect(_receive(pairs[0][1], 2), [b"x1", b"x2"], "received on the first connection")
    pairs[0][0].disconnect()
    expect(
        _receive(pairs[1][1], 2), [b"y1", b"y2"], "received on the second connection"
    )
    expect(
        _receive(pairs[1][0], 2), [b"1y", b"2y"], "received on the second connection"
    )


@scenario(style=Style.RACE)
@clause("QB-FIFO-6")
def a_goodbye_delivers_everything_accepted(stage: Stage) -> None:
    """Whenever the sender's end hangs up, all it accepted is received, in order."""
    left, right = stage.pair(capacity=1)
    accepted: list[bytes] = []

    def send_until_refused() -> None:
        for number in range(3):
            left.send(b"%d" % number)
            accepted.append(b"%d" % number)

    sender = stage.spawn(send_until_refused)
    hang_up = stage.spawn(left.disconnect)

    received = stage.drain(right)
    stage.value(hang_up)
    stage.join(sender)
    expect(received, accepted, "received, against what was accepted")
    if sender.error is not None:
        stage.raises(None, sender)


@scenario(style=Style.RACE)
@clause("QB-FIFO-6")
def a_receiver_that_hangs_up_has_a_prefix(stage: Stage) -> None:
    """Whenever the receiver hangs up, it has received a prefix of the sent messages."""
    left, right = stage.pair(capacity=2)
    messages = [b"0", b"1", b"2"]
    sender = stage.spawn(_send_all, left, messages)
    receiver = stage.spawn(stage.drain, right)

    stage.value(stage.spawn(right.disconnect))

    received = stage.value(receiver)
    expect(received, messages[: len(received)], "received before hanging up")
    stage.join(sender)
    if sender.error is not None:
        stage.raises(None, sender)
