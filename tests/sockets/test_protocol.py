"""The protocol without a socket: each frame in each state, numbers and credit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker.sockets.errors import ProtocolError
from queuebroker.sockets.frames import (
    Credit,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
    encode,
)
from queuebroker.sockets.protocol import PINGS_MAX, Event, Lost, Protocol
from queuebroker.sockets.states import TRANSITIONS, Act, State
from specs.clauses import clause
from tests.depth import among
from tests.sockets.protocol_pairs import (
    HEARD,
    HELLO,
    WELCOME,
    carry,
    in_state,
    open_pair,
    received,
)
from tests.sockets.support import Wired
from tests.sockets.test_frames import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = among(30, 300)


def test_a_hello_and_a_welcome_open_a_connection() -> None:
    """Each side gets the other's frame; capacity and limit hold on both sides."""
    local, remote = Protocol(HELLO), Protocol()

    carry(local, remote)
    assert remote.events() == [HELLO]
    remote.welcome(WELCOME)
    carry(local, remote)

    assert local.events() == [WELCOME]
    assert [one.state for one in (local, remote)] == [State.OPEN] * 2
    assert (local.capacity, local.limit) == (remote.capacity, remote.limit) == (4, 100)


def test_a_refusal_ends_it() -> None:
    """The connector gets the reason."""
    local, remote = Protocol(HELLO), Protocol()
    carry(local, remote)

    remote.refuse(Refusal.TIMED_OUT, "nobody")
    carry(local, remote)

    assert local.events() == [Refused(Refusal.TIMED_OUT, "nobody")]
    assert local.ended
    assert remote.ended


def test_a_connector_that_withdraws_sends_a_goodbye() -> None:
    """The listener gets a good-bye, so that no accept takes the connect."""
    local, remote = Protocol(HELLO), Protocol()
    carry(local, remote)
    remote.events()

    local.disconnect()
    carry(local, remote)

    assert remote.events() == [Goodbye(0)]
    assert remote.ended


@clause("QB-SOCK-3")
def test_credit_comes_in_batches_and_at_once_when_there_may_be_none() -> None:
    """Half of the capacity at once, or any credit if all of it is used."""
    local, remote = open_pair()
    local.send_message(b"1")
    carry(local, remote)
    remote.credit(1)
    carry(local, remote)
    assert local.unreceived == 1, "one of four: not worth a frame"

    local.send_run([b"2", b"3", b"4"])
    carry(local, remote)
    assert local.unreceived == 3, "none was left, so it came at once"

    local.send_message(b"5")
    carry(local, remote)
    assert local.unreceived == 4
    remote.credit(1)
    carry(local, remote)
    assert local.unreceived == 3
    remote.credit(1)
    carry(local, remote)
    assert local.unreceived == 3
    remote.credit(1)
    carry(local, remote)
    assert local.unreceived == 1


@pytest.mark.parametrize(
    ("welcome", "error"),
    [
        (Welcome("bob", 4, 1001), "messages of 1001 bytes were chosen, 1000 offered"),
        (Welcome("bob", 4, 1000, 3), "3 descriptors were chosen, 2 offered"),
        (Welcome("bob", 4, 1000, 2), None),
    ],
)
@clause("QB-SOCK-5", "QB-SOCK-9")
def test_an_acceptor_chooses_no_more_than_the_caller_offers(
    welcome: Welcome, error: str | None
) -> None:
    """Else a listener determines the memory of each process that connects to it."""
    local = Protocol(Hello("ann", 7, 1000, descriptors=2))
    local.receive_data(encode(welcome))

    [event] = local.events()
    assert (str(event.error) if isinstance(event, Lost) else None) == error


@pytest.mark.parametrize("capacity", [3, 8, 256])
@clause("QB-SOCK-3")
def test_credit_goes_with_a_message_of_two_sides_that_answer_each_other(
    capacity: int,
) -> None:
    """Neither sends a frame that holds nothing but credit, and both have room."""
    local, remote = open_pair(Welcome("bob", capacity, 100))
    ann, bob = Wired(local), Wired(remote)
    for _ in range(3 * capacity):
        for one, writer, other, reader in (
            (local, ann, remote, bob),
            (remote, bob, local, ann),
        ):
            assert one.sent < one.sendable
            if reader.read_whole(writer.post(b"m")) is None:
                other.taken += 1
            other.credit(0)
            assert not one.outgoing
            assert not other.outgoing
            assert not reader.written
    ann.close()
    bob.close()


@pytest.mark.parametrize("capacity", [1, 2, 3, 64])
@clause("QB-SOCK-3")
def test_a_receiver_that_sends_nothing_never_withholds_the_last_credit(
    capacity: int,
) -> None:
    """After any number of receives, a sender without room gets credit."""
    for taken in range(1, capacity + 1):
        local, remote = open_pair(Welcome("bob", capacity, 100))
        for _ in range(capacity):
            local.send_message(b"m")
        carry(local, remote)
        for _ in range(taken):
            remote.credit(1)
        carry(local, remote)
        assert local.unreceived < capacity


@clause("QB-SOCK-4")
def test_a_goodbye_arrives_after_all_earlier_messages() -> None:
    """It has the number of received messages, and its reason."""
    local, remote = open_pair()
    remote.send_message(b"unread")
    remote.send_message(b"read")
    carry(local, remote)
    local.events()
    local.credit(1)
    local.send_message(b"last")

    local.disconnect(LookupError("gone"))
    carry(local, remote)

    last, goodbye = remote.events()
    assert isinstance(last, Messages)
    assert goodbye == Goodbye(1, abnormal=True, kind="LookupError", text="gone")
    assert remote.unreceived == 1
    assert remote.state is State.PEER_LEFT
    remote.disconnect()
    carry(local, remote)
    assert local.events() == [Goodbye(0)]
    assert local.ended
    assert remote.ended


def test_a_message_that_crosses_a_goodbye_is_no_violation() -> None:
    """Frames of both directions may cross."""
    local, remote = open_pair()
    local.disconnect()
    remote.send_message(b"crossing")

    carry(local, remote)

    assert [type(event) for event in local.events()] == [Messages]
    assert remote.events() == [Goodbye(0)]


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
        protocol = in_state(state)
        if (state, act) in TRANSITIONS:
            call(protocol)
            assert protocol.state is TRANSITIONS[state, act]
            assert protocol.data_to_send()
        else:
            with pytest.raises(ValueError, match=f"while {state.value}"):
                call(protocol)
            assert protocol.state is state
            assert protocol.data_to_send() == []


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("act", HEARD)
@clause("QB-SOCK-5")
def test_each_frame_in_each_state_is_as_the_table_says(state: State, act: Act) -> None:
    """A frame not in the table causes one error and ends the connection."""
    protocol = in_state(state)
    protocol.capacity = protocol.sendable = protocol.receivable = 4
    protocol.reader.limit = 100

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
    local, remote = open_pair()

    remote.receive_data(said)

    (lost,) = [event for event in remote.events() if isinstance(event, Lost)]
    assert isinstance(lost.error, ProtocolError)
    local.receive_data(b"".join(remote.data_to_send()))
    goodbye = local.events()[-1]
    assert isinstance(goodbye, Goodbye), "the peer is told whose fault it was"
    assert goodbye.text == str(lost.error)


@pytest.mark.parametrize("versions", [(0, 0), (2, 9)])
def test_a_version_that_is_not_spoken_is_refused(versions: tuple[int, int]) -> None:
    """The connector gets it in the one frame that never changes."""
    local = Protocol(Hello("ann", 7, 100, versions=versions))
    remote = Protocol()

    carry(local, remote)

    (refused,) = local.events()
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.PROTOCOL
    assert "versions" in refused.text


def test_pings_without_end_are_a_violation() -> None:
    """A peer that never reads the answers would fill our memory with them."""
    _, remote = open_pair()
    remote.receive_data(encoded(Ping(1)) * PINGS_MAX)
    assert not remote.ended

    remote.receive_data(encoded(Ping(1)))

    assert remote.ended


def test_a_peer_answers_a_ping_after_all_earlier_frames() -> None:
    """So an answer proves that all earlier frames have arrived."""
    local, remote = open_pair()
    local.send_message(b"m")
    local.ping(77)

    carry(local, remote)

    assert local.events() == [Pong(77)]
    assert received(remote) == [b"m"]


@clause("QB-SOCK-4")
def test_silence_past_the_lease_is_a_lost_peer() -> None:
    """A ping goes out at half of it; any frame that arrives restarts it."""
    local, remote = Protocol(HELLO, lease_s=10), Protocol()
    carry(local, remote)
    remote.welcome(WELCOME)
    carry(local, remote)
    local.events()

    local.tick(100.0)
    local.tick(104.9)
    assert local.data_to_send() == []
    local.tick(105.0)
    assert local.data_to_send() == [encoded(Ping(0))]
    local.tick(109.0)
    local.receive_data(encoded(Pong(0)))
    local.tick(109.5)
    local.tick(119.4)
    link = Wired(local)
    remote.send_message(b"m")
    assert link.read_whole(b"".join(remote.data_to_send())) == b"m"
    link.close()
    local.tick(119.5)
    local.tick(129.4)
    assert not local.ended
    local.events()
    local.tick(129.5)

    (lost,) = local.events()
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
    protocol = in_state(state)
    protocol.capacity = protocol.sendable = protocol.receivable = 2
    protocol.reader.limit = 50
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
