"""Frames in bytes that are cut anywhere, too long, or altered; without a socket."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from queuebroker.sockets import frames
from queuebroker.sockets.errors import PeerLostError, ProtocolError
from queuebroker.sockets.frame_reader import FIRST_FRAME_BYTES_MAX, FrameReader
from queuebroker.sockets.frames import (
    HEAD,
    OVERHEAD_BYTES,
    Credit,
    Frame,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Welcome,
)
from queuebroker.sockets.protocol import Event, Lost, Protocol
from queuebroker.sockets.states import State
from specs.clauses import clause
from tests.sockets.protocol_pairs import HELLO, WELCOME, carry, open_pair, received
from tests.sockets.support import Wired
from tests.sockets.test_frames import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable


def conversation() -> bytes:
    """Return all frames that a connector sends in a short life."""
    local = Protocol(HELLO)
    said = local.data_to_send()
    local.receive_data(encoded(WELCOME))
    local.send_message(b"one")
    local.send_run([b"two", b"", b"x" * 90])
    local.ping(5)
    said += local.data_to_send()
    local.disconnect(LookupError("enough"))
    return b"".join(said + local.data_to_send())


def listen_to(pieces: Iterable[bytes]) -> tuple[list[Event], Protocol]:
    """Return the events of an acceptor that welcomes any connector."""
    remote = Protocol()
    events: list[Event] = []
    for piece in pieces:
        remote.receive_data(piece)
        new = remote.events()
        events += new
        if any(isinstance(event, Hello) for event in new) and not remote.ended:
            remote.welcome(WELCOME)
    return events, remote


def in_halves(data: bytes) -> list[bytes]:
    """Return the HELLO alone, and the rest, which is sent after the welcome."""
    first = HEAD.size + HEAD.unpack_from(data)[1]
    return [data[:first], data[first:]]


@clause("QB-SOCK-5")
def test_one_byte_at_a_time_is_the_same() -> None:
    """The events do not depend on how the bytes are cut into pieces."""
    said = conversation()
    whole, _ = listen_to(in_halves(said))

    bytewise, remote = listen_to(bytes((byte,)) for byte in said)

    def flat(events: list[Event]) -> list[object]:
        return [
            list(event.messages) if isinstance(event, Messages) else event
            for event in events
        ]

    assert flat(bytewise) == flat(whole)
    assert remote.state is State.PEER_LEFT
    assert [type(event) for event in whole] == [Hello, Messages, Messages, Goodbye]


@clause("QB-SOCK-5")
def test_every_truncation_is_a_lost_peer() -> None:
    """Whole frames are delivered, then comes one error."""
    said = conversation()
    whole, _ = listen_to(in_halves(said))
    for cut in range(len(said)):
        length = cut
        remote = Protocol()
        events: list[Event] = []
        for piece in in_halves(said):
            remote.receive_data(piece[:length])
            length = max(0, length - len(piece))
            if remote.state is State.HELLO_RECEIVED:
                remote.welcome(WELCOME)
            events += remote.events()
        remote.receive_eof()
        (lost,) = remote.events()
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
        events, remote = listen_to([bytes(flipped[:first]), bytes(flipped[first:])])
        lost = [event for event in events if isinstance(event, Lost)]
        assert len(lost) <= 1
        assert not lost or events[-1] is lost[0]
        assert remote.ended is bool(lost) or remote.state in (
            State.PEER_LEFT,
            State.OPEN,
        )


@pytest.mark.deep
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
        _, remote = open_pair()
        remote.receive_data(HEAD.pack(kind, length))
        assert remote.ended is not stands
        assert remote.reader.wanted == (most if stands else 0)


@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["apart", "together"])
@clause("QB-SOCK-4", "QB-SOCK-5")
def test_an_end_receives_a_message_before_a_frame_that_is_too_long(piece: int) -> None:
    """However the bytes of the two frames are cut."""
    _, remote = open_pair()
    said = frames.encode_message(1, b"first") + HEAD.pack(Frame.MESSAGE, 2**31)
    for begin in range(0, len(said), piece):
        remote.receive_data(said[begin : begin + piece])
    assert remote.ended
    assert received(remote) == [b"first"]


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101])
@clause("QB-SOCK-5")
def test_a_message_has_the_limit_that_was_agreed_on(size: int) -> None:
    """The limit also holds in a run, whose frame may be longer."""
    for said in (
        frames.encode_message(1, bytes(size)),
        frames.encode_run(1, [b"", bytes(size)]),
    ):
        _, remote = open_pair()
        remote.receive_data(said)
        assert remote.ended is (size > 100)


def open_unanswered(most: int, welcome: Welcome = WELCOME) -> tuple[Protocol, Protocol]:
    """Return `open_pair` with the small limit before the acceptor's first message."""
    local, remote = Protocol(HELLO), Protocol(reader=FrameReader(unanswered_max=most))
    carry(local, remote)
    remote.welcome(welcome)
    carry(local, remote)
    local.events(), remote.events()
    return local, remote


@pytest.mark.parametrize("kind", [Frame.MESSAGE, Frame.RUN, Frame.MESSAGE_WITH_FDS])
@clause("QB-SOCK-9")
def test_before_its_first_message_an_acceptor_buffers_only_short_frames(
    kind: Frame,
) -> None:
    """A longer frame ends the connection before any of its body is stored.

    Several messages in one frame may be as long as in a frame each (capacity: 4).
    """
    most = {
        Frame.MESSAGE: 10 + OVERHEAD_BYTES,
        Frame.RUN: 4 * (10 + OVERHEAD_BYTES),
        Frame.MESSAGE_WITH_FDS: 10 + FIRST_FRAME_BYTES_MAX,
    }[kind]
    for length in (most, most + 1):
        for limit in (10, 100):  # the peer influences it
            _, remote = open_unanswered(10, Welcome("bob", 4, limit))
            remote.receive_data(HEAD.pack(kind, length))
            assert remote.ended is (length > most)
            assert remote.reader.wanted == (0 if remote.ended else most)


@pytest.mark.parametrize("size", [10, 11, 100])
@clause("QB-SOCK-9")
def test_a_message_may_be_long_once_one_was_sent(size: int) -> None:
    """However that message was sent; messages received before do not count."""

    def alone(remote: Protocol) -> None:
        remote.send_message(b"")

    def by_the_link(remote: Protocol) -> None:
        assert post(remote, b"")

    def together(remote: Protocol) -> None:
        remote.send_run([b"", b""])

    first, second = (frames.encode_message(n, bytes(size)) for n in (1, 2))
    for said in (first, frames.encode_run(1, [b"", bytes(size)])):
        _, remote = open_unanswered(10)
        remote.receive_data(said)
        assert remote.ended is (size > 10)
    _, remote = open_unanswered(10)
    assert read_whole(remote, first) is None  # `receive_data` handles it
    for answer in (alone, by_the_link, together):
        _, remote = open_unanswered(10)
        remote.receive_data(frames.encode_message(1, b""))
        answer(remote)
        remote.receive_data(second)
        assert received(remote) == [b"", bytes(size)]
        _, remote = open_unanswered(10)
        answer(remote)
        assert read_whole(remote, first) == bytes(size)


def test_a_connector_receives_messages_up_to_the_agreed_limit_at_once() -> None:
    """The small limit is not for connectors, and never raises the agreed limit."""
    local, remote = open_unanswered(10)
    remote.send_message(bytes(WELCOME.limit))
    carry(local, remote)
    assert received(local) == [bytes(WELCOME.limit)]
    _, remote = open_unanswered(WELCOME.limit + 1)
    remote.receive_data(frames.encode_message(1, bytes(WELCOME.limit + 1)))
    assert remote.ended


def read_whole(protocol: Protocol, data: bytes) -> bytes | None:
    """Return the message that a link reads, if the bytes are exactly one."""
    with closing(Wired(protocol)) as wired:
        return wired.read_whole(data)


def post(protocol: Protocol, message: bytes) -> bytes:
    """Return the bytes that a link writes for a message."""
    with closing(Wired(protocol)) as wired:
        return wired.post(message)


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
    (local, _), (other, _) = open_pair(), open_pair()

    wired = Wired(local)
    message = wired.read_whole(data)

    assert (message is not None) is (what in ("one message", "an empty one"))
    other.receive_data(data)
    if message is None:
        assert repr(wired.events) == repr(other.events())  # errors are not equal
    else:
        assert [message] == received(other)
        assert wired.events == []
        other.credit(1)
    assert (local.state, local.owed, local.taken) == (
        other.state,
        other.owed,
        other.taken,
    )
    assert wired.written == b"".join(other.data_to_send())
    wired.close()


@clause("QB-SOCK-3", "QB-SOCK-4")
@pytest.mark.parametrize("state", ["full", "left", "peer left", "ended", "in a frame"])
def test_nothing_is_received_whole_where_it_must_be_looked_at(state: str) -> None:
    """Without room, after a good-bye, in the middle of another frame."""
    local, remote = open_pair()
    remote.receive_data(post(local, b"m"))
    if state == "full":
        remote.send_run([b"m"] * WELCOME.capacity)
        carry(local, remote)
    elif state == "left":
        local.disconnect()
    elif state == "peer left":
        remote.disconnect()
        carry(local, remote)
    elif state == "ended":
        local.receive_eof()
    else:
        local.receive_data(frames.encode(Ping(1))[:3])
    number = WELCOME.capacity + 1 if state == "full" else 1

    assert read_whole(local, frames.encode_message(number, b"m")) is None
    if local.state is not State.OPEN:
        with pytest.raises(ValueError, match="cannot send_messages"):
            post(local, b"m")


def frames_after_credit() -> dict[str, bytes]:
    """Return bytes that follow a credit for one message, by description."""
    one = frames.encode_message(1, b"message")
    return {
        "one message": one,
        "its beginning": one[:-1],
        "less than a head": one[:12],
        "two messages": one + frames.encode_message(2, b"m"),
        "another number": frames.encode_message(2, b"m"),
        "a ping": frames.encode(Ping(1)),
        "another credit": frames.encode(Credit(1)) + one,
        "a wrong credit": frames.encode(Credit(9)) + one,
        "nothing": b"",
    }


@clause("QB-SOCK-3")
@pytest.mark.parametrize("sent", [1, 2, WELCOME.capacity])
@pytest.mark.parametrize("what", frames_after_credit())
def test_a_message_with_a_credit_may_be_received_whole(what: str, sent: int) -> None:
    """The effect is that of `receive_data`, unless a sender waits for the credit."""
    data = frames.encode(Credit(1)) + frames_after_credit()[what]
    (local, _), (other, _) = open_pair(), open_pair()
    for each in (local, other):
        each.send_run([b"sent"] * sent)
        each.data_to_send()
    wired = Wired(local)

    message = wired.read_whole(data)

    full = sent == WELCOME.capacity
    assert (message is not None) is (what == "one message" and not full)
    other.receive_data(data)
    expected = other.events()
    if message is None:
        messages = [each for each in wired.events if not isinstance(each, Credit)]
        assert repr(messages) == repr(
            [each for each in expected if not isinstance(each, Credit)]
        )
        assert (Credit(1) in wired.events) >= (full and Credit(1) in expected)
    else:
        assert expected == [Credit(1), Messages(1, [message])]
        assert wired.events == []
        other.credit(1)
    assert attributes(local) == attributes(other)
    wired.close()


@clause("QB-SOCK-3")
def test_a_credit_before_a_message_is_checked() -> None:
    data = frames.encode(Credit(2)) + frames.encode_message(1, b"message")
    local, _ = open_pair()
    local.send_message(b"sent")
    wired = Wired(local)

    assert wired.read_whole(data) is None

    [lost] = wired.events
    assert isinstance(lost, Lost)
    assert "credit for 2 messages, 1 were sent" in str(lost.error)
    wired.close()


@clause("QB-SOCK-3")
@pytest.mark.parametrize("cut", range(1, 9))
def test_a_credit_that_arrives_in_two_pieces_counts_once(cut: int) -> None:
    data = frames.encode(Credit(1)) + frames.encode_message(1, b"message")
    local, _ = open_pair()
    local.send_run([b"sent"] * 2)
    wired = Wired(local)

    assert wired.read_whole(data[:cut]) is None
    assert wired.read_whole(data[cut:]) is None  # the whole frames are events

    assert (local.received, local.arrived) == (1, 1)
    assert wired.events == [Credit(1), Messages(1, [b"message"])]
    wired.close()


def attributes(protocol: Protocol) -> tuple[object, ...]:
    """Return the state that credit and messages change."""
    return (
        *(protocol.state, protocol.received, protocol.sendable, protocol.unreceived),
        *(protocol.arrived, protocol.owed, protocol.taken),
    )


@pytest.mark.parametrize("begun", [13, 14, 50, 112])
@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_long_message_is_put_where_it_stays(begun: int, piece: int) -> None:
    """Byte for byte; the frame after it takes the usual path."""
    local, _ = open_pair()
    message = bytes(range(100))
    data = frames.encode_message(1, message)
    local.receive_data(data[:begun])
    assert local.reader.long_bytes() == len(message)

    local.reader.gather()
    while local.reader.gathering is not None:
        assert local.events() == []
        with local.reader.gathering.room as room:
            arrived = data[begun : begun + min(piece, len(room))]
            room[: len(arrived)] = arrived
        begun += len(arrived)
        local.receive_gathered(len(arrived))

    assert begun == len(data)
    assert received(local) == [message]
    local.receive_data(frames.encode_message(2, b"m"))
    assert received(local) == [b"m"]


@pytest.mark.parametrize("ends", ["nothing", "eof", "violation"])
def test_a_connection_that_ends_within_a_gathered_message_is_lost(ends: str) -> None:
    """No part of the message is kept."""
    local, _ = open_pair()
    local.receive_data(frames.encode_message(1, bytes(100))[:20])
    local.reader.gather()

    if ends == "nothing":
        local.receive_gathered(0)
    elif ends == "eof":
        local.receive_eof()
    else:
        local.abort(ProtocolError("it is wrong"))

    assert local.reader.gathering is None
    assert [type(event) for event in local.events()] == [Lost]
    assert local.ended


def test_only_a_lone_message_is_gathered() -> None:
    """Not a run, nor a frame whose length has not arrived."""
    local, _ = open_pair()
    assert local.reader.long_bytes() == 0
    local.receive_data(frames.encode_run(1, [b"m", b"n"])[:-1])
    assert local.reader.long_bytes() == 0
