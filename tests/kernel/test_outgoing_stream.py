"""`OutgoingStream`: which messages it keeps, and how the floor follows."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bus.errors import WireError
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement, IncomingStream
from bus.kernel.streams.outgoing_stream import OutgoingStream
from specs.clauses import clause

WINDOW = 5


class OutgoingStreamMachine(RuleBasedStateMachine):
    """A sender and its receiver, with a link that loses and delays anything."""

    def __init__(self) -> None:
        super().__init__()
        self.sender: OutgoingStream[int] = OutgoingStream(7, window=WINDOW)
        self.receiver: IncomingStream[int] = IncomingStream(window=WINDOW, ranges_max=9)
        self.kept: list[int] = []  # the numbers of the messages to keep
        self.sent_as: dict[int, int] = {}
        self.handed: list[int] = []
        self.reported: set[int] = set()  # messages whose fate the sender has learned
        self.acknowledgements = [Acknowledgement(1)]

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        """Send one message, or several as one run."""
        if self.sender.room < count:
            with pytest.raises(ValueError, match=r"^cannot send: "):
                self.sender.send(0, count=count)
            return
        first = self.sender.send(self.sender.next, count=count)
        for number in range(first, first + count):
            self.kept.append(number)
            self.sent_as[number] = first

    @rule(data=st.data())
    def one_arrives(self, data: st.DataObject) -> None:
        outstanding = self.sender.outstanding()
        if outstanding:
            number, message = data.draw(st.sampled_from(outstanding))
            assert message == self.sent_as[number]
            self.handed += self.receiver.accept(number, [number], self.sender.floor)
            self.acknowledgements.append(self.receiver.acknowledgement)

    @rule()
    def the_floor_arrives(self) -> None:
        self.handed += self.receiver.give_up_below(self.sender.floor)
        self.acknowledgements.append(self.receiver.acknowledgement)

    @rule(data=st.data())
    def an_acknowledgement_arrives(self, data: st.DataObject) -> None:
        has = data.draw(st.sampled_from(self.acknowledgements))
        missing = {n for start, stop in has.missing for n in range(start, stop)}
        reported = [n for n in self.kept if n < has.next and n not in missing]

        assert self.sender.acknowledge(has) == [self.sent_as[each] for each in reported]

        self.reported.update(reported)
        self.kept = [number for number in self.kept if number not in reported]

    @invariant()
    def agrees(self) -> None:
        sender = self.sender
        assert [number for number, _ in sender.outstanding()] == self.kept
        assert len(sender) == len(self.kept)
        assert sender.floor == min(self.kept, default=sender.next)
        assert sender.next - sender.floor <= WINDOW
        assert sender.room == WINDOW - (sender.next - sender.floor)
        assert self.reported | set(self.kept) == set(range(1, sender.next))
        # At most once and in order, despite losses.
        assert self.handed == sorted(set(self.handed))


@clause("AMO-10", "AMO-12", "AMO-13", "AMO-23")
def test_each_message_is_kept_until_its_fate_is_known() -> None:
    run_state_machine_as_test(OutgoingStreamMachine)


@clause("AMO-13")
def test_without_room_nothing_gets_a_number() -> None:
    """The window counts from the floor, so only the oldest message matters."""
    stream: OutgoingStream[str] = OutgoingStream(1, window=2)
    stream.send("a")
    stream.send("b")

    with pytest.raises(ValueError, match=r"^cannot send: 2 numbers are outstanding$"):
        stream.send("c")

    assert stream.acknowledge(Acknowledgement(3, ((1, 2),))) == ["b"]
    assert stream.room == 0
    assert stream.acknowledge(Acknowledgement(3)) == ["a"]
    assert stream.room == 2
    assert stream.send("c") == 3


@clause("AMO-15")
def test_at_the_last_number_the_stream_is_spent() -> None:
    """The window does not reach beyond it."""
    stream: OutgoingStream[str] = OutgoingStream(1, first=NUMBERS - 2, window=9)
    assert stream.room == 2
    assert [stream.send("x"), stream.send("y")] == [NUMBERS - 2, NUMBERS - 1]

    assert stream.spent
    assert stream.room == 0
    with pytest.raises(ValueError, match=r"^cannot send"):
        stream.send("z")


@clause("AMO-23")
def test_an_acknowledgement_of_an_unsent_message_is_rejected() -> None:
    """It changes nothing."""
    stream: OutgoingStream[str] = OutgoingStream(1, window=9)
    stream.send("a")

    with pytest.raises(WireError, match=r"^acknowledged up to 2, sent up to 1$"):
        stream.acknowledge(Acknowledgement(3))

    assert stream.outstanding() == [(1, "a")]


@clause("AMO-19")
def test_messages_that_a_lost_receiver_has_not_acknowledged_are_abandoned() -> None:
    """All of them, in order, once; nothing is left to resend."""
    stream: OutgoingStream[str] = OutgoingStream(1, window=9)
    for message in "abc":
        stream.send(message)
    stream.acknowledge(Acknowledgement(3, ((1, 2),)))

    assert stream.abandon() == ["a", "c"]
    assert stream.abandon() == []
    assert stream.outstanding() == []
    assert stream.floor == stream.next == 4
