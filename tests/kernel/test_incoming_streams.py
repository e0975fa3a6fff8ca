"""`IncomingStreams`: whose messages are accepted, and in which epoch."""

from __future__ import annotations

import random

import pytest

from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.streams.incoming_streams import IncomingStreams, Opened, Refusal
from bus.kernel.streams.outgoing_stream import OutgoingStream
from specs.clauses import clause

ME = 5  # this incarnation
NOW, LIFE_S = 100.0, 60.0


@pytest.fixture
def streams() -> IncomingStreams[str]:
    return IncomingStreams(ME, window=8, ranges_max=4, life_s=LIFE_S, ended_max=3)


@clause("AMO-1")
def test_two_senders_have_their_own_numbers(streams: IncomingStreams[str]) -> None:
    """The same number is a duplicate from one sender and new from the other."""
    for sender in "ab":
        streams.open(sender, 1)
    assert streams.accept("a", 1, ME, 1, ["a1"], 1) == ["a1"]

    assert streams.accept("b", 1, ME, 1, ["b1"], 1) == ["b1"]
    assert streams.accept("a", 1, ME, 1, ["a1"], 1) == []


@clause("AMO-6")
def test_the_message_that_was_sent_first_may_arrive_last(
    streams: IncomingStreams[str],
) -> None:
    """The stream begins at the number in its opening, not at the first arrival."""
    streams.open("a", 1, first=3)

    assert streams.accept("a", 1, ME, 5, ["5"], 1) == []
    assert streams.accept("a", 1, ME, 3, ["3"], 1) == ["3"]
    assert streams.accept("a", 1, ME, 2, ["2"], 1) == []
    assert streams.accept("a", 1, ME, 4, ["4"], 1) == ["4", "5"]


@clause("AMO-7", "AMO-24")
def test_of_the_same_message_over_two_links_one_is_accepted(
    streams: IncomingStreams[str],
) -> None:
    """A batch may be resent in other pieces; every time it is acknowledged alike."""
    streams.open("a", 1)

    assert streams.accept("a", 1, ME, 1, ["1", "2"], 1) == ["1", "2"]
    assert streams.accept("a", 1, ME, 2, ["2", "3"], 1) == ["3"]
    assert streams.acknowledgement("a") == Acknowledgement(4)
    assert streams.accept("a", 1, ME, 1, ["1", "2", "3"], 1) == []
    assert streams.acknowledgement("a") == Acknowledgement(4)


@clause("AMO-8")
def test_a_message_that_fails_in_its_handler_is_not_handed_over_again(
    streams: IncomingStreams[str],
) -> None:
    """Even if the sender, without an acknowledgement, sends it again."""
    streams.open("a", 1)
    calls: list[str] = []

    def handle(message: str) -> None:
        calls.append(message)
        raise ZeroDivisionError

    for _ in range(2):
        handed = streams.accept("a", 1, ME, 1, ["m"], 1)
        assert not isinstance(handed, Refusal)
        for message in handed:
            with pytest.raises(ZeroDivisionError):
                handle(message)

    assert calls == ["m"]


@clause("AMO-16")
def test_an_older_epoch_is_refused_wholly(streams: IncomingStreams[str]) -> None:
    """Messages still under way, and an opening after a clock was set back."""
    streams.open("a", 3)
    streams.accept("a", 3, ME, 1, ["old 1"], 1)

    assert streams.open("a", 4) == Opened(None, 4, Acknowledgement(1))

    assert streams.accept("a", 3, ME, 2, ["old 2", "old 3"], 1) is Refusal.OLD_EPOCH
    assert streams.refused[Refusal.OLD_EPOCH] == 2
    assert streams.open("a", 3) == Opened(Refusal.OLD_EPOCH, 4, Acknowledgement(1))
    assert streams.accept("a", 4, ME, 1, ["new 1"], 1) == ["new 1"]


@clause("AMO-19")
def test_a_message_for_an_earlier_incarnation_is_refused(
    streams: IncomingStreams[str],
) -> None:
    """It may have been handed over in that life."""
    streams.open("a", 1)

    assert streams.accept("a", 1, ME - 1, 1, ["m"], 1) is Refusal.OLD_INCARNATION
    assert streams.refused[Refusal.OLD_INCARNATION] == 1
    assert streams.acknowledgement("a") == Acknowledgement(1)


@clause("AMO-22")
def test_a_stream_that_is_not_open_accepts_nothing(
    streams: IncomingStreams[str],
) -> None:
    """From a stranger, of a later epoch, or after the close; no state is created."""
    assert streams.accept("a", 1, ME, 1, ["m"], 1) is Refusal.NOT_OPEN
    assert streams.find_open("a", 1) is None
    with pytest.raises(KeyError):
        streams.acknowledgement("a")
    streams.open("a", 1)
    assert streams.accept("a", 2, ME, 1, ["m"], 1) is Refusal.NOT_OPEN
    assert streams.find_open("a", 2) is None
    stream = streams.find_open("a", 1)
    assert stream is not None
    assert stream.acknowledgement == streams.acknowledgement("a")
    streams.accept("a", 1, ME, 2, ["2"], 1)

    assert streams.close("a", 1, 3, NOW) == ["2"]

    assert streams.accept("a", 1, ME, 3, ["3"], 1) is Refusal.NOT_OPEN
    assert streams.find_open("a", 1) is None
    assert streams.close("a", 1, 9, NOW) == []
    assert streams.refused[Refusal.NOT_OPEN] == 3


@clause("AMO-21")
def test_it_is_remembered_for_a_while_that_a_stream_has_ended(
    streams: IncomingStreams[str],
) -> None:
    """With its epoch and its last number; then no message of it can arrive any more."""
    streams.open("a", 7)
    streams.accept("a", 7, ME, 1, ["1", "2"], 1)
    streams.accept("a", 7, ME, 4, ["4"], 1)
    streams.end("a", NOW)
    streams.end("a", NOW + 1)  # it has ended

    assert streams.expire(NOW + LIFE_S - 1) == NOW + LIFE_S
    assert streams.accept("a", 7, ME, 5, ["5"], 1) is Refusal.NOT_OPEN
    assert streams.open("a", 6).refusal is Refusal.OLD_EPOCH
    assert streams.open("a", 7).has == Acknowledgement(5)
    assert streams.accept("a", 7, ME, 3, ["3", "4", "5"], 1) == ["5"]
    assert streams.expire(NOW + LIFE_S) is None

    streams.end("a", NOW)
    assert streams.expire(NOW + LIFE_S) is None
    assert streams.open("a", 6) == Opened(None, 6, Acknowledgement(1))


@clause("AMO-21")
def test_of_streams_that_ended_no_more_are_remembered_than_a_bound(
    streams: IncomingStreams[str],
) -> None:
    """The most recently ended ones; open streams do not count."""
    for name in "abcdefg":
        streams.open(name, 7)
    for name in "abcde":
        streams.end(name, NOW)

    remembered = [
        name for name in "abcdefg" if streams.open(name, 6).refusal is not None
    ]

    assert remembered == list("cdefg")


@clause("AMO-3", "AMO-23")
def test_a_stream_goes_on_where_a_lost_link_left_it(
    streams: IncomingStreams[str],
) -> None:
    """The sender learns how much has arrived and sends the rest, even after a close."""
    sender: OutgoingStream[str] = OutgoingStream(1, window=8)
    for message in "abcd":
        sender.send(message)
    streams.open("s", 1)
    streams.accept("s", 1, ME, 1, ["a"], 1)
    streams.accept("s", 1, ME, 3, ["c"], 1)

    opened = streams.open("s", 1)
    sender.acknowledge(opened.has)

    assert sender.outstanding() == [(2, "b"), (4, "d")]
    handed = []
    for number, message in sender.outstanding():
        taken = streams.accept("s", 1, ME, number, [message], sender.floor)
        assert not isinstance(taken, Refusal)
        handed += taken
    assert handed == ["b", "c", "d"]
    streams.close("s", 1, 5, NOW)
    assert streams.open("s", 1).has == Acknowledgement(5)
    assert streams.accept("s", 1, ME, 2, ["b"], 1) == []


@clause("AMO-23", "AMO-24", "AMO-10", "AMO-12")
@pytest.mark.parametrize("seed", range(20))
def test_over_a_link_that_loses_a_third_each_way_each_message_has_one_fate(
    seed: int,
) -> None:
    """Handed over once and in order, or abandoned.

    The sender abandons messages that are late, as one of a peer may.
    """
    rng = random.Random(seed)
    streams: IncomingStreams[int] = IncomingStreams(
        ME, window=16, ranges_max=16, life_s=LIFE_S, ended_max=3
    )
    sender: OutgoingStream[int] = OutgoingStream(1, window=16)
    streams.open("s", 1)
    handed: list[int] = []
    received: list[int] = []
    abandoned: list[int] = []
    late_at: dict[int, int] = {}
    count = 300

    for now in range(10_000):
        while sender.room and sender.next <= count:
            late_at[sender.send(sender.next)] = now + rng.randrange(3, 40)
        for number, message in sender.outstanding():
            if rng.random() < 0.7:
                taken = streams.accept("s", 1, ME, number, [message], sender.floor)
                assert not isinstance(taken, Refusal)
                handed += taken
                if rng.random() < 0.7:
                    received += sender.acknowledge(streams.acknowledgement("s"))
        worth = [(n, n + 1) for n, _ in sender.outstanding() if late_at[n] > now]
        abandoned += sender.acknowledge(Acknowledgement(sender.next, tuple(worth)))
        if sender.next > count and not len(sender):
            break
    handed += streams.close("s", 1, sender.floor, NOW)

    assert handed == sorted(set(handed))
    assert sorted(received + abandoned) == list(range(1, count + 1))
    assert set(received) <= set(handed)
