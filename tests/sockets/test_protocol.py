"""The protocol without a socket: every way to cut, alter and reorder its frames."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker.sockets import frames
from queuebroker.sockets.errors import PeerLostError, ProtocolError
from queuebroker.sockets.frames import (
    HEAD,
    OVERHEAD_BYTES,
    Credit,
    Frame,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
)
from queuebroker.sockets.protocol import (
    FIRST_FRAME_BYTES_MAX,
    PINGS_MAX,
    Event,
    Lost,
    Protocol,
)
from queuebroker.sockets.states import TRANSITIONS, Act, State
from specs.clauses import clause
from tests.sockets.test_frames import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queuebroker.sockets.frames import Value

EXAMPLES = int(os.environ.get("SOCKET_EXAMPLES", "300"))

HELLO = Hello("ann", 7, 1000)
WELCOME = Welcome("bob", 4, 100)


def carry(one: Protocol, other: Protocol, piece: int = 1 << 20) -> None:
    """Carry data both ways until neither side has any to send."""
    moved = True
    while moved:
        moved = False
        for source, target in ((one, other), (other, one)):
            data = b"".join(source.data_to_send())
            for begin in range(0, len(data), piece):
                moved = True
                target.receive_data(data[begin : begin + piece])


def open_pair(welcome: Welcome = WELCOME) -> tuple[Protocol, Protocol]:
    """Return the connector's side and the acceptor's, open."""
    near, far = Protocol.asking(HELLO), Protocol.listening()
    carry(near, far)
    far.welcome(welcome)
    carry(near, far)
    near.events(), far.events()
    return near, far


def received(protocol: Protocol) -> list[bytes]:
    """Return the messages among the events."""
    return [
        message
        for event in protocol.events()
        if isinstance(event, Messages)
        for message in event.messages
    ]


def test_a_hello_and_a_welcome_open_a_connection() -> None:
    """Each side gets the other's frame; capacity and limit hold on both sides."""
    near, far = Protocol.asking(HELLO), Protocol.listening()

    carry(near, far)
    assert far.events() == [HELLO]
    far.welcome(WELCOME)
    carry(near, far)

    assert near.events() == [WELCOME]
    assert [one.state for one in (near, far)] == [State.OPEN] * 2
    assert (near.capacity, near.limit) == (far.capacity, far.limit) == (4, 100)


def test_a_refusal_ends_it() -> None:
    """The connector gets the reason."""
    near, far = Protocol.asking(HELLO), Protocol.listening()
    carry(near, far)

    far.refuse(Refusal.TIMED_OUT, "nobody")
    carry(near, far)

    assert near.events() == [Refused(Refusal.TIMED_OUT, "nobody")]
    assert near.ended
    assert far.ended


def test_a_connector_that_withdraws_sends_a_goodbye() -> None:
    """The listener gets a good-bye, so that no accept takes the connect."""
    near, far = Protocol.asking(HELLO), Protocol.listening()
    carry(near, far)
    far.events()

    near.disconnect()
    carry(near, far)

    assert far.events() == [Goodbye(0)]
    assert far.ended


@clause("QB-SOCK-3")
def test_credit_comes_in_batches_and_at_once_when_there_may_be_none() -> None:
    """Half of the capacity at once, or any credit if all of it is used."""
    near, far = open_pair()
    near.send_message(b"1")
    carry(near, far)
    far.credit(1)
    carry(near, far)
    assert near.unreceived == 1, "one of four: not worth a frame"

    near.send_run([b"2", b"3", b"4"])
    carry(near, far)
    assert near.unreceived == 3, "none was left, so it came at once"

    near.send_message(b"5")
    carry(near, far)
    assert near.unreceived == 4
    far.credit(1)
    carry(near, far)
    assert near.unreceived == 3
    far.credit(1)
    carry(near, far)
    assert near.unreceived == 3
    far.credit(1)
    carry(near, far)
    assert near.unreceived == 1


@pytest.mark.parametrize("capacity", [1, 2, 3, 64])
@clause("QB-SOCK-3")
def test_a_receiver_that_sends_nothing_never_withholds_the_last_credit(
    capacity: int,
) -> None:
    """After any number of receives, a sender without room gets credit."""
    for taken in range(1, capacity + 1):
        near, far = open_pair(Welcome("bob", capacity, 100))
        for _ in range(capacity):
            near.send_message(b"m")
        carry(near, far)
        for _ in range(taken):
            far.credit(1)
        carry(near, far)
        assert near.unreceived < capacity


@clause("QB-SOCK-4")
def test_a_goodbye_arrives_after_all_earlier_messages() -> None:
    """It has the number of received messages, and its reason."""
    near, far = open_pair()
    far.send_message(b"unread")
    far.send_message(b"read")
    carry(near, far)
    near.events()
    near.credit(1)
    near.send_message(b"last")

    near.disconnect(LookupError("gone"))
    carry(near, far)

    last, goodbye = far.events()
    assert isinstance(last, Messages)
    assert goodbye == Goodbye(1, abnormal=True, kind="LookupError", text="gone")
    assert far.unreceived == 1
    assert far.state is State.PEER_LEFT
    far.disconnect()
    carry(near, far)
    assert near.events() == [Goodbye(0)]
    assert near.ended
    assert far.ended


def test_a_message_that_crosses_a_goodbye_is_no_violation() -> None:
    """Frames of both directions may cross."""
    near, far = open_pair()
    near.disconnect()
    far.send_message(b"crossing")

    carry(near, far)

    assert [type(event) for event in near.events()] == [Messages]
    assert far.events() == [Goodbye(0)]


@pytest.mark.parametrize("state", State)
def test_a_call_sends_a_frame_only_if_the_state_allows_it(state: State) -> None:
    """The call raises a ValueError, and nothing changes."""
    calls: dict[Act, Callable[[Protocol], None]] = {
        Act.SEND_WELCOME: lambda one: one.welcome(WELCOME),
        Act.SEND_REFUSED: lambda one: one.refuse(Refusal.BUSY),
        Act.SEND_MESSAGES: lambda one: one.send_message(b"m"),
        Act.SEND_GOODBYE: lambda one: one.disconnect(),
        Act.SEND_PING: lambda one: one.ping(1),
    }
    for act, call in calls.items():
        protocol = Protocol(state)
        if (state, act) in TRANSITIONS:
            call(protocol)
            assert protocol.state is TRANSITIONS[state, act]
            assert protocol.data_to_send()
        else:
            with pytest.raises(ValueError, match=f"while {state.value}"):
                call(protocol)
            assert protocol.state is state
            assert protocol.data_to_send() == []


HEARD: dict[Act, Value] = {
    Act.RECEIVE_HELLO: HELLO,
    Act.RECEIVE_WELCOME: WELCOME,
    Act.RECEIVE_REFUSED: Refused(Refusal.BUSY),
    Act.RECEIVE_MESSAGES: Messages(1, (b"m",)),
    Act.RECEIVE_CREDIT: Credit(0),
    Act.RECEIVE_GOODBYE: Goodbye(0),
    Act.RECEIVE_PING: Ping(1),
    Act.RECEIVE_PONG: Pong(1),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("act", HEARD)
@clause("QB-SOCK-5")
def test_each_frame_in_each_state_is_as_the_table_says(state: State, act: Act) -> None:
    """A frame not in the table causes one error and ends the connection."""
    protocol = Protocol(state)
    protocol.capacity, protocol.limit = 4, 100

    protocol.receive_data(encoded(HEARD[act]))

    events = protocol.events()
    if state is State.ENDED:
        assert events == []
    elif (state, act) in TRANSITIONS:
        assert protocol.state is TRANSITIONS[state, act]
        assert not any(isinstance(event, Lost) for event in events)
    else:
        assert protocol.ended
        assert [type(event) for event in events] == [Lost]
        protocol.receive_data(encoded(HEARD[act]))
        protocol.receive_eof()
        assert protocol.events() == [], "one error, and nothing else"


def conversation() -> bytes:
    """Return all frames that a connector sends in a short life."""
    near = Protocol.asking(HELLO)
    said = near.data_to_send()
    near.receive_data(encoded(WELCOME))
    near.send_message(b"one")
    near.send_run([b"two", b"", b"x" * 90])
    near.ping(5)
    said += near.data_to_send()
    near.disconnect(LookupError("enough"))
    return b"".join(said + near.data_to_send())


def listen_to(pieces: Iterable[bytes]) -> tuple[list[Event], Protocol]:
    """Return the events of an acceptor that welcomes any connector."""
    far = Protocol.listening()
    events: list[Event] = []
    for piece in pieces:
        far.receive_data(piece)
        new = far.events()
        events += new
        if any(isinstance(event, Hello) for event in new) and not far.ended:
            far.welcome(WELCOME)
    return events, far


def in_halves(data: bytes) -> list[bytes]:
    """Return the HELLO alone, and the rest, which is sent after the welcome."""
    first = HEAD.size + HEAD.unpack_from(data)[1]
    return [data[:first], data[first:]]


@clause("QB-SOCK-5")
def test_one_byte_at_a_time_is_the_same() -> None:
    """The events do not depend on how the bytes are cut into pieces."""
    said = conversation()
    whole, _ = listen_to(in_halves(said))

    bytewise, far = listen_to(bytes((byte,)) for byte in said)

    def flat(events: list[Event]) -> list[object]:
        return [
            list(event.messages) if isinstance(event, Messages) else event
            for event in events
        ]

    assert flat(bytewise) == flat(whole)
    assert far.state is State.PEER_LEFT
    assert [type(event) for event in whole] == [Hello, Messages, Messages, Goodbye]


@clause("QB-SOCK-5")
def test_every_truncation_is_a_lost_peer() -> None:
    """Whole frames are delivered, then comes one error."""
    said = conversation()
    whole, _ = listen_to(in_halves(said))
    for cut in range(len(said)):
        length = cut
        far = Protocol.listening()
        events: list[Event] = []
        for piece in in_halves(said):
            far.receive_data(piece[:length])
            length = max(0, length - len(piece))
            if far.state is State.HELLO_RECEIVED:
                far.welcome(WELCOME)
            events += far.events()
        far.receive_eof()
        (lost,) = far.events()
        assert isinstance(lost, Lost)
        assert isinstance(lost.error, PeerLostError)
        assert [type(one) for one in events] == [type(one) for one in whole][
            : len(events)
        ]


@clause("QB-SOCK-5")
def test_any_flipped_bit_causes_at_most_one_loss_and_no_exception() -> None:
    """At most one `Lost` reports it; no exception is raised."""
    said = conversation()
    for bit in range(8 * len(said)):
        flipped = bytearray(said)
        flipped[bit // 8] ^= 1 << bit % 8
        first = HEAD.size + HEAD.unpack_from(said)[1]
        events, far = listen_to([bytes(flipped[:first]), bytes(flipped[first:])])
        lost = [event for event in events if isinstance(event, Lost)]
        assert len(lost) <= 1
        assert not lost or events[-1] is lost[0]
        assert far.ended is bool(lost) or far.state in (State.PEER_LEFT, State.OPEN)


@pytest.mark.parametrize("kind", range(256))
@clause("QB-SOCK-5")
def test_a_length_is_judged_before_the_body_comes(kind: int) -> None:
    """At its limit a frame is waited for; one byte above, the connection ends."""
    limit = WELCOME.limit
    allowed = {
        Frame.MESSAGE: limit + OVERHEAD_BYTES,
        Frame.RUN: (1 << 18) + OVERHEAD_BYTES,
        Frame.MESSAGE_WITH_FDS: limit + FIRST_FRAME_BYTES_MAX,
    }
    most = next((most for one, most in allowed.items() if one == kind), 0)
    most = most or FIRST_FRAME_BYTES_MAX
    for length, stands in ((most, True), (most + 1, False), (2**32 - 1, False)):
        _, far = open_pair()
        far.receive_data(HEAD.pack(kind, length))
        assert far.ended is not stands
        assert far.wanted == (most if stands else 0)


@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["apart", "together"])
@clause("QB-SOCK-4", "QB-SOCK-5")
def test_an_end_receives_a_message_before_a_frame_that_is_too_long(piece: int) -> None:
    """However the bytes of the two frames are cut."""
    _, far = open_pair()
    said = frames.encode_message(1, b"first") + HEAD.pack(Frame.MESSAGE, 2**31)
    for begin in range(0, len(said), piece):
        far.receive_data(said[begin : begin + piece])
    assert far.ended
    assert received(far) == [b"first"]


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101])
@clause("QB-SOCK-5")
def test_a_message_has_the_limit_that_was_agreed_on(size: int) -> None:
    """The limit also holds in a run, whose frame may be longer."""
    for said in (
        frames.encode_message(1, bytes(size)),
        frames.encode_run(1, [b"", bytes(size)]),
    ):
        _, far = open_pair()
        far.receive_data(said)
        assert far.ended is (size > 100)


def open_unanswered(most: int, welcome: Welcome = WELCOME) -> tuple[Protocol, Protocol]:
    """Return `open_pair` with the small limit before the acceptor's first message."""
    near, far = Protocol.asking(HELLO), Protocol.listening(unanswered_max=most)
    carry(near, far)
    far.welcome(welcome)
    carry(near, far)
    near.events(), far.events()
    return near, far


@pytest.mark.parametrize("kind", [Frame.MESSAGE, Frame.RUN, Frame.MESSAGE_WITH_FDS])
@clause("QB-SOCK-9")
def test_before_its_first_message_an_acceptor_buffers_only_short_frames(
    kind: Frame,
) -> None:
    """A longer frame ends the connection before any of its body is stored."""
    most = 10 + (
        FIRST_FRAME_BYTES_MAX if kind is Frame.MESSAGE_WITH_FDS else OVERHEAD_BYTES
    )
    for length in (most, most + 1):
        for limit in (10, 100):  # the peer influences it
            _, far = open_unanswered(10, Welcome("bob", 4, limit))
            far.receive_data(HEAD.pack(kind, length))
            assert far.ended is (length > most)
            assert far.wanted == (0 if far.ended else most)


@pytest.mark.parametrize("size", [10, 11, 100])
@clause("QB-SOCK-9")
def test_a_message_may_be_long_once_one_was_sent(size: int) -> None:
    """However that message was sent; messages received before do not count."""

    def alone(far: Protocol) -> None:
        far.send_message(b"")

    def by_the_caller(far: Protocol) -> None:
        far.frame_of(b"")

    def together(far: Protocol) -> None:
        far.send_run([b"", b""])

    first, second = (frames.encode_message(n, bytes(size)) for n in (1, 2))
    _, far = open_unanswered(10)
    far.receive_data(first)
    assert far.ended is (size > 10)
    _, far = open_unanswered(10)
    assert far.receive_whole(first) is None  # `receive_data` handles it
    for answer in (alone, by_the_caller, together):
        _, far = open_unanswered(10)
        far.receive_data(frames.encode_message(1, b""))
        answer(far)
        far.receive_data(second)
        assert received(far) == [b"", bytes(size)]
        _, far = open_unanswered(10)
        answer(far)
        assert far.receive_whole(first) == bytes(size)


def test_a_connector_receives_messages_up_to_the_agreed_limit_at_once() -> None:
    """The small limit is not for connectors, and never raises the agreed limit."""
    near, far = open_unanswered(10)
    far.send_message(bytes(WELCOME.limit))
    carry(near, far)
    assert received(near) == [bytes(WELCOME.limit)]
    _, far = open_unanswered(WELCOME.limit + 1)
    far.receive_data(frames.encode_message(1, bytes(WELCOME.limit + 1)))
    assert far.ended


@clause("QB-SOCK-5")
@pytest.mark.parametrize(
    "said",
    [
        encoded(Messages(2, (b"m",))),
        encoded(Messages(0, (b"m",))),
        encoded(Messages(1, (b"m",))) * 2,
        encoded(Messages(1, [b"m"] * 5)),
        encoded(Credit(1)),
        encoded(Goodbye(1)),
        encoded(Messages(1, (b"m",), 1)),
    ],
    ids=["gap", "zero", "twice", "above capacity", "credit", "good-bye", "descriptor"],
)
def test_numbers_that_cannot_be_are_a_violation(said: bytes) -> None:
    """A peer with a wrong count has lost data or sends false numbers."""
    near, far = open_pair()

    far.receive_data(said)

    (lost,) = [event for event in far.events() if isinstance(event, Lost)]
    assert isinstance(lost.error, ProtocolError)
    near.receive_data(b"".join(far.data_to_send()))
    goodbye = near.events()[-1]
    assert isinstance(goodbye, Goodbye), "the peer is told whose fault it was"
    assert goodbye.text == str(lost.error)


@pytest.mark.parametrize("versions", [(0, 0), (2, 9)])
def test_a_version_that_is_not_spoken_is_refused(versions: tuple[int, int]) -> None:
    """The connector gets it in the one frame that never changes."""
    near = Protocol.asking(Hello("ann", 7, 100, versions=versions))
    far = Protocol.listening()

    carry(near, far)

    (refused,) = near.events()
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.PROTOCOL
    assert "versions" in refused.text


def test_pings_without_end_are_a_violation() -> None:
    """A peer that never reads the answers would fill our memory with them."""
    _, far = open_pair()
    far.receive_data(encoded(Ping(1)) * PINGS_MAX)
    assert not far.ended

    far.receive_data(encoded(Ping(1)))

    assert far.ended


def test_a_peer_answers_a_ping_after_all_earlier_frames() -> None:
    """So an answer proves that all earlier frames have arrived."""
    near, far = open_pair()
    near.send_message(b"m")
    near.ping(77)

    carry(near, far)

    assert near.events() == [Pong(77)]
    assert received(far) == [b"m"]


@clause("QB-SOCK-4")
def test_silence_past_the_lease_is_a_lost_peer() -> None:
    """A ping goes out at half of it; any frame that arrives restarts it."""
    near, far = Protocol.asking(HELLO, lease_s=10), Protocol.listening()
    carry(near, far)
    far.welcome(WELCOME)
    carry(near, far)
    near.events()

    near.tick(100.0)
    near.tick(104.9)
    assert near.data_to_send() == []
    near.tick(105.0)
    assert near.data_to_send() == [encoded(Ping(0))]
    near.tick(109.0)
    near.receive_data(encoded(Pong(0)))
    near.tick(109.5)
    near.tick(119.4)
    assert not near.ended
    near.events()
    near.tick(119.5)

    (lost,) = near.events()
    assert isinstance(lost, Lost)
    assert str(lost.error) == "peer was silent for 10 s"


speech = st.lists(
    st.sampled_from([encoded(value) for value in HEARD.values()])
    | st.binary(max_size=30),
    max_size=8,
)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(list(State)), speech)
@clause("QB-SOCK-5")
def test_frames_in_any_order(state: State, said: list[bytes]) -> None:
    """Any sequence causes at most one error, and no event after it."""
    protocol = Protocol(state)
    protocol.capacity, protocol.limit = 2, 50
    events: list[Event] = []
    for piece in said:
        protocol.receive_data(piece)
        events += protocol.events()
    ended = [isinstance(event, Lost) for event in events]
    assert sum(ended) <= 1
    assert not any(ended[:-1])
    assert 0 <= protocol.owed <= protocol.capacity


acts = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["send", "run", "take", "carry"])),
    max_size=40,
)


@settings(max_examples=EXAMPLES)
@given(st.integers(1, 5), acts, st.integers(1, 40))
@clause("QB-SOCK-3", "QB-SOCK-5")
def test_two_sides_agree_on_messages_and_credit_after_any_script(
    capacity: int, script: list[tuple[int, str]], piece: int
) -> None:
    """All messages arrive once, in order, and never more than the capacity."""
    sides = open_pair(Welcome("bob", capacity, 100))
    numbers = [itertools.count(), itertools.count()]
    arrived: list[list[bytes]] = [[], []]
    taken = [0, 0]
    for side, act in script:
        room = capacity - sides[side].unreceived
        if act == "send" and room:
            sides[side].send_message(b"%d" % next(numbers[side]))
        elif act == "run" and room:
            sides[side].send_run([b"%d" % next(numbers[side]) for _ in range(room)])
        elif act == "take" and taken[side] < len(arrived[side]):
            taken[side] += 1
            sides[side].credit(1)
        elif act == "carry":
            carry(*sides, piece=piece)
        for number in (0, 1):
            arrived[number] += received(sides[number])
            assert len(arrived[number]) - taken[number] <= capacity
    carry(*sides, piece=piece)
    for number in (0, 1):
        arrived[number] += received(sides[number])
        sent = next(numbers[1 - number])
        assert arrived[number] == [b"%d" % one for one in range(sent)]
        assert not sides[number].ended
        full = sides[1 - number].unreceived == capacity
        assert not (full and taken[number] > sent - capacity)


def lone_frames() -> dict[str, bytes]:
    """Return possible first frames for a side without messages, by description."""
    one = frames.encode_message(1, b"message")
    return {
        "one message": one,
        "an empty one": frames.encode_message(1, b""),
        "two": one + frames.encode_message(2, b"m"),
        "its beginning": one[:-1],
        "less than a head": one[:12],
        "one and the beginning of another": one + one[:3],
        "another number": frames.encode_message(2, b"m"),
        "too long": frames.encode_message(1, bytes(WELCOME.limit + 1)),
        "a run": frames.encode_run(1, [b"m"]),
        "a ping": frames.encode(Ping(1)),
        "credit": frames.encode(Credit(0)),
    }


@pytest.mark.parametrize("what", lone_frames())
def test_a_lone_message_may_be_received_whole(what: str) -> None:
    """The effect is that of `receive_data`; any other frame is left untouched."""
    data = lone_frames()[what]
    (near, _), (other, _) = open_pair(), open_pair()

    message = near.receive_whole(data)

    assert (message is not None) is (what in ("one message", "an empty one"))
    if message is None:
        near.receive_data(data)
        other.receive_data(data)
        assert repr(near.events()) == repr(other.events())  # errors are not equal
    else:
        other.receive_data(data)
        assert [message] == received(other)
        assert near.events() == []
        other.credit(1)
        near.credit(0)
    assert (near.state, near.owed, near.taken) == (other.state, other.owed, other.taken)
    assert near.data_to_send() == other.data_to_send()


@pytest.mark.parametrize("state", ["full", "left", "in a frame"])
def test_nothing_is_received_whole_where_it_must_be_looked_at(state: str) -> None:
    """Without room, after a good-bye, in the middle of another frame."""
    near, far = open_pair()
    if state == "full":
        far.send_run([b"m"] * WELCOME.capacity)
        carry(near, far)
    elif state == "left":
        near.disconnect()
    else:
        near.receive_data(frames.encode(Ping(1))[:3])
    number = WELCOME.capacity + 1 if state == "full" else 1

    assert near.receive_whole(frames.encode_message(number, b"m")) is None


@pytest.mark.parametrize("begun", [13, 14, 50, 112])
@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_long_message_is_put_where_it_stays(begun: int, piece: int) -> None:
    """Byte for byte; the frame after it takes the usual path."""
    near, _ = open_pair()
    message = bytes(range(100))
    data = frames.encode_message(1, message)
    near.receive_data(data[:begun])
    assert near.long_bytes() == len(message)

    near.gather()
    while near.gathering is not None:
        assert near.events() == []
        with near.gathering.room as room:
            came = data[begun : begun + min(piece, len(room))]
            room[: len(came)] = came
        begun += len(came)
        near.receive_gathered(len(came))

    assert begun == len(data)
    assert received(near) == [message]
    near.receive_data(frames.encode_message(2, b"m"))
    assert received(near) == [b"m"]


@pytest.mark.parametrize("ends", ["nothing", "eof", "violation"])
def test_a_connection_that_ends_within_a_gathered_message_is_lost(ends: str) -> None:
    """No part of the message is kept."""
    near, _ = open_pair()
    near.receive_data(frames.encode_message(1, bytes(100))[:20])
    near.gather()

    if ends == "nothing":
        near.receive_gathered(0)
    elif ends == "eof":
        near.receive_eof()
    else:
        near.fail(ProtocolError("it is wrong"))

    assert near.gathering is None
    assert [type(event) for event in near.events()] == [Lost]
    assert near.ended


def test_only_a_lone_message_is_gathered() -> None:
    """Not a run, nor a frame whose length has not arrived."""
    near, _ = open_pair()
    assert near.long_bytes() == 0
    near.receive_data(frames.encode_run(1, [b"m", b"n"])[:-1])
    assert near.long_bytes() == 0
