"""The traffic to another process, over one link after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus.errors import WireError
from bus.kernel.peer.session import Session
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement
from bus.kernel.wire import Ack, Batch, Bye, Frame, Unrelay
from bus.model.config import BusConfig
from specs.clauses import clause
from tests.kernel.sessions import link_up, new_alarm, opening, outbound_run
from tests.kit.constants import set_constants
from tests.strikes import everywhere

if TYPE_CHECKING:
    from tests.strikes import Blow

CONFIG = BusConfig(window=4)
NOW = 100.0


def session(epoch: int = 5, *, own: int = 1, incarnation: int = 2) -> Session:
    set_constants(STREAM_WINDOW=8)
    return Session(
        epoch,
        own=own,
        incarnation=incarnation,
        nonce=0,
        config=CONFIG,
        ack_alarm=new_alarm(),
    )


def gone(relay: int) -> Unrelay:
    return Unrelay(relay=relay, extracted=0)


def said(frames: list[Frame]) -> list[object]:
    """Return relay numbers of control frames and bodies of messages, in order."""
    words: list[object] = []
    for frame in frames:
        if isinstance(frame, Unrelay):
            words.append(frame.relay)
        elif isinstance(frame, Batch):
            words += [
                (
                    frame.first,
                    [bytes(each) for run in frame.runs for each in run.bodies],
                )
            ]
    return words


@clause("BUS-RELAY-10")
def test_a_session_holds_back_all_frames_until_the_peer_opens_its_stream() -> None:
    """Control frames are held back until then; messages stay in their queues."""
    one = session()
    one.send_control(gone(1))
    assert (one.room, one.flush(NOW)) == (0, [])
    one.attach(1)
    assert (one.room, one.flush(NOW)) == (0, [])

    one.open(opening(), Acknowledgement(1))

    assert one.room == 8
    assert said(one.flush(NOW)) == [1]


@clause("BUS-RELAY-10")
def test_an_interrupted_control_frame_is_sent_and_counted_or_neither() -> None:
    """The peer counts the frames, and acknowledges their number."""

    def case(interrupted: Blow) -> None:
        one = session()
        link_up(one)

        interrupted(lambda: one.send_control(gone(1)))

        one.send_control(gone(2))
        sent = said(one.flush(NOW))
        assert sent in ([2], [1, 2])
        assert one.backlog == len(sent)
        assert one.is_unrelay_pending(1) is (1 in sent)

    everywhere(case, packages=(package,))


@clause("BUS-MOVE-8", "AMO-19")
def test_a_new_incarnation_receives_no_frames_for_the_previous_one() -> None:
    """Numbers continue, so that no number means two messages."""
    one = session()
    link_up(one)
    one.send_control(gone(1))
    one.send(3, [outbound_run([b"a"])])
    one.flush(NOW)

    one.reset()
    link_up(one, 2)
    one.send(3, [outbound_run([b"b"])])

    assert said(one.flush(NOW)) == [(2, [b"b"])]
    assert one.outgoing.floor == 2


@clause("BUS-RELAY-9")
def test_a_new_incarnation_receives_no_acknowledgement_for_the_previous_one() -> None:
    one = session()
    link_up(one)
    one.acks.on_received(Acknowledgement(8))
    one.acks.on_extracted(4, 3, NOW)
    one.acks.count_control()
    assert one.acks.is_due(NOW)

    one.reset()

    assert not one.acks.is_due(NOW + CONFIG.ack_delay_s)
    assert (one.acks.received, one.acks.controls_received) == (Acknowledgement(1), 0)
    assert not one.acks.extracted


@clause("BUS-DEREG-5")
def test_frames_queued_while_a_link_may_be_closed_are_held_back() -> None:
    one = session()
    link_up(one)
    one.send_link_frame(Bye())
    one.pause()
    one.send_control(gone(1))
    assert [type(each) for each in one.flush(NOW)] == [Bye]
    assert one.room == 0

    one.resume()

    assert said(one.flush(NOW)) == [1]
    assert one.room == 8


@clause("BUS-RELAY-9")
def test_extracted_messages_are_acknowledged_soon_or_at_half_the_window() -> None:
    one = session()
    link_up(one)
    one.acks.on_extracted(4, 1, NOW)
    assert one.flush(NOW) == []
    assert one.ack_at == NOW + CONFIG.ack_delay_s
    (ack,) = one.flush(NOW + CONFIG.ack_delay_s)
    assert isinstance(ack, Ack)
    assert (ack.epoch, ack.incarnation, ack.extracted) == (7, 1, ((4, 1),))

    one.acks.on_extracted(4, 3, NOW + 1)
    assert [type(each) for each in one.flush(NOW + 1)] == [Ack]


@clause("BUS-RELAY-9", "BUS-RELAY-11")
def test_half_the_bytes_of_the_window_are_acknowledged_at_once_as_well() -> None:
    """Otherwise the sender of long messages would wait for each windowful."""
    one = session()
    link_up(one)
    half = CONFIG.window_bytes // 2
    one.acks.on_extracted(4, 1, NOW, half - 1)
    assert one.flush(NOW) == []
    one.acks.on_extracted(5, 1, NOW, half - 1)  # counts for another task's window
    assert one.flush(NOW) == []
    one.acks.on_extracted(4, 1, NOW, 1)
    assert [type(each) for each in one.flush(NOW)] == [Ack]
    one.acks.on_extracted(4, 1, NOW, half - 1)
    assert one.flush(NOW) == []


def test_many_control_frames_are_acknowledged_at_once() -> None:
    """Otherwise a peer that sends nothing else would keep all of them."""
    one = session()
    link_up(one)
    for _ in range(63):
        one.acks.count_control()
    assert one.flush(NOW) == []

    one.acks.count_control()

    (ack,) = one.flush(NOW)
    assert isinstance(ack, Ack)
    assert ack.controls == 64


def batch_of(one: Session, source: int = 1) -> Batch:
    """Return the frame of one message that a session sends to relay 9."""
    one.send(9, [outbound_run([b"x"], relay=source)])
    [batch] = one.flush(NOW)
    assert isinstance(batch, Batch)
    return batch


@clause("BUS-RELAY-9", "AMO-23")
def test_a_message_acknowledges_received_and_extracted_messages() -> None:
    one = session()
    link_up(one)
    one.acks.on_received(Acknowledgement(4))
    one.acks.on_extracted(1, 2, NOW)

    batch = batch_of(one)

    assert (batch.acknowledged, batch.extracted) == (3, 2)
    assert one.ack_at is None
    assert one.flush(NOW + 1) == []
    assert one.acks.next_check(NOW, ready=True) == NOW + 50 * CONFIG.ack_delay_s
    assert one.acks.in_exchange
    assert one.acks.next_check(NOW, ready=True) is None


@clause("BUS-RELAY-9")
def test_an_exchange_needs_no_ack_frame_however_long_it_is() -> None:
    """Each message of this process acknowledges the one before it."""
    one = session()
    link_up(one)
    for number in range(1, 20):
        one.acks.on_received(Acknowledgement(number + 1))
        one.acks.on_extracted(1, number, NOW, CONFIG.window_bytes // 4)
        assert one.flush(NOW) == []

        assert batch_of(one).acknowledged == number
        assert one.flush(NOW + 1) == []
        one.on_ack(Ack(epoch=5, incarnation=2, last=number, controls=0))


@clause("BUS-RELAY-9")
def test_half_the_window_of_the_stream_since_a_message_needs_an_ack_frame() -> None:
    one = session()
    link_up(one)
    one.acks.on_received(Acknowledgement(11))
    assert batch_of(one).acknowledged == 10

    one.acks.on_received(Acknowledgement(14))
    assert one.flush(NOW) == []
    one.acks.on_received(Acknowledgement(15))
    assert [type(each) for each in one.flush(NOW)] == [Ack]


@clause("BUS-RELAY-9")
def test_a_control_frame_ends_an_exchange() -> None:
    """Its sender may be about to close, and then waits for the acknowledgement."""
    one = session()
    link_up(one)
    one.acks.on_received(Acknowledgement(4))
    one.acks.on_extracted(1, 2, NOW)
    batch_of(one)
    one.acks.next_check(NOW, ready=True)
    one.acks.on_extracted(1, 3, NOW)
    before = one.acks.in_exchange

    one.acks.count_control()

    assert (before, one.acks.in_exchange) == (True, False)
    assert one.acks._alarm.at <= NOW + CONFIG.ack_delay_s
    assert one.acks.next_check(NOW, ready=True) == NOW + CONFIG.ack_delay_s


@clause("BUS-RELAY-9")
def test_messages_of_one_task_after_another_acknowledge_what_each_extracted() -> None:
    """So no ACK frame repeats the extractions of the first task."""
    one = session()
    link_up(one)

    for relay in (1, 2):
        one.acks.on_extracted(relay, 1, NOW)
        assert batch_of(one, relay).extracted == 1
        assert one.ack_at is None


@clause("BUS-RELAY-9")
def test_an_extraction_that_no_message_has_acknowledged_is_reviewed_soon() -> None:
    one = session()
    link_up(one)
    one.acks.on_extracted(1, 1, NOW)

    assert one.acks._alarm.at <= NOW
    assert one.acks.next_check(NOW, ready=True) == NOW + CONFIG.ack_delay_s
    assert not one.acks.in_exchange


@clause("BUS-RELAY-9")
@pytest.mark.parametrize(
    "also",
    [
        lambda one: one.acks.on_extracted(2, 1, NOW),
        lambda one: one.acks.count_control(),
        lambda one: one.acks.on_received(Acknowledgement(4, ((2, 3),))),
    ],
    ids=["another task took something", "a control frame came", "some are missing"],
)
def test_an_ack_frame_acknowledges_messages_that_no_message_acknowledges(
    also: Any,
) -> None:
    one = session()
    link_up(one)
    one.acks.on_received(Acknowledgement(4))
    one.acks.on_extracted(1, 1, NOW)
    also(one)

    batch_of(one)

    assert one.ack_at == NOW + CONFIG.ack_delay_s
    ack = one.flush(NOW + CONFIG.ack_delay_s)[0]
    assert isinstance(ack, Ack)
    assert (1, 1) in ack.extracted
    assert ack.acknowledgement == one.acks.received
    assert ack.controls == one.acks.controls_received


@clause("AMO-23")
def test_nothing_is_acknowledged_by_a_message_while_something_is_missing() -> None:
    one = session()
    link_up(one)
    one.acks.on_extracted(1, 1, NOW)
    one.acks.on_received(Acknowledgement(4, ((2, 3),)))

    batch = batch_of(one)

    assert (batch.acknowledged, batch.extracted) == (0, 0)


@clause("BUS-ENT-17")
def test_of_a_task_that_left_nothing_is_kept_but_its_farewell() -> None:
    """UNRELAY reports its last extraction, on the next link too, until acknowledged."""
    one = session()
    link_up(one)
    for relay in range(1, 101):
        one.acks.on_extracted(relay, 1, NOW)
        one.send_control(gone(relay))
        one.acks.forget(relay)
    assert one.acks.extracted == one.acks._taken == one.acks._acked_extracted == {}

    link_up(one, 2, known=5, controls=99)
    frames = one.flush(NOW + CONFIG.ack_delay_s)

    assert said(frames) == [100]
    assert all(each.extracted == () for each in frames if isinstance(each, Ack))
    assert [one.is_unrelay_pending(relay) for relay in (99, 100)] == [False, True]
    one.on_ack(Ack(epoch=5, incarnation=2, last=0, controls=100))
    assert not one.is_unrelay_pending(100)


def test_an_acknowledgement_of_unsent_control_frames_is_rejected() -> None:
    one = session()
    link_up(one)
    one.send_control(gone(1))

    with pytest.raises(WireError, match="ACK counts 2 control frames of 1 sent"):
        one.on_ack(Ack(epoch=5, incarnation=2, last=0, controls=2))


def test_the_time_left_is_computed_when_the_frame_is_sent() -> None:
    """Computed when the frame is sent, not when queued; never negative."""
    one = session()
    link_up(one)
    for deadline in (NOW + 2.5, NOW - 1.0):
        one.send(3, [outbound_run([b""], deadline=deadline)])

    (batch,) = one.flush(NOW)

    assert isinstance(batch, Batch)
    assert [each.milliseconds_left for each in batch.runs] == [2500, 0]


@clause("AMO-17")
def test_the_first_frame_names_the_epoch_that_is_remembered_of_the_peer() -> None:
    """Once the peer has named its epoch, that one counts."""
    one = session()
    assert one.attach(1, 9).known == 9
    assert one.attach(2).known == 0

    one.open(opening(), Acknowledgement(1))

    assert one.attach(3, 9).known == 7


@clause("BUS-RELAY-10")
def test_the_first_frame_on_a_link_states_how_much_has_arrived() -> None:
    """Both as found when the previous link opened, and since then."""
    one = session()
    assert one.attach(1).last == 0
    one.open(opening(), Acknowledgement(4))
    assert one.attach(2).last == 3
    one.open(opening(), Acknowledgement(4))

    one.acks.on_received(Acknowledgement(6))
    one.acks.count_control()

    frame = one.attach(3)
    assert (frame.last, frame.controls) == (5, 1)


@clause("AMO-17")
def test_a_session_takes_another_epoch_only_before_it_is_open() -> None:
    one = session()
    one.renew(9)
    assert (one.epoch, one.outgoing.epoch, one.attach(1).epoch) == (9, 9, 9)
    with pytest.raises(WireError, match=f"knows epoch {NUMBERS - 1}, sent is 9"):
        one.renew(NUMBERS)

    one.open(opening(), Acknowledgement(1))

    with pytest.raises(WireError, match="knows epoch 10, sent is 9"):
        one.renew(11)
    assert one.epoch == 9


@clause("BUS-RELAY-10")
def test_messages_that_queue_up_together_are_sent_in_one_frame() -> None:
    """A control frame in between splits them, and keeps its place."""
    one = session()
    link_up(one)

    for body in (b"a", b"b"):
        one.send(3, [outbound_run([body])])
    one.send_control(gone(1))
    one.send(3, [outbound_run([b"c"])])

    assert said(one.flush(NOW)) == [(1, [b"a", b"b"]), 1, (3, [b"c"])]
    assert one.flush(NOW) == []


@clause("BUS-RELAY-9", "BUS-RELAY-10")
def test_a_new_link_acknowledges_all_extractions_again() -> None:
    """The acknowledgement may have been lost with the link before."""
    one = session()
    link_up(one)
    for relay in (3, 4):
        one.acks.on_extracted(relay, 1, NOW)
    (lost,) = one.flush(NOW + CONFIG.ack_delay_s)
    one.detach()

    link_up(one, 2, known=5)

    assert isinstance(lost, Ack)
    assert lost.extracted == ((3, 1), (4, 1))
    assert one.flush(NOW + 1) == [lost]


@clause("BUS-RELAY-10")
@pytest.mark.parametrize(
    ("last", "controls", "again"),
    [
        (0, 0, [1, (1, [b"a"]), 2, (2, [b"b"]), 3]),
        (1, 1, [2, (2, [b"b"]), 3]),
        (1, 2, [(2, [b"b"]), 3]),
        (2, 3, []),
    ],
)
def test_a_new_link_resends_undelivered_frames_in_their_order(
    last: int, controls: int, again: list[object]
) -> None:
    one = session()
    link_up(one)
    one.send_control(gone(1))
    one.send(3, [outbound_run([b"a"])])
    one.send_control(gone(2))
    one.send(3, [outbound_run([b"b"])])
    one.send_control(gone(3))
    one.flush(NOW)
    one.detach()

    frame = link_up(one, 2, known=5, last=last, controls=controls)

    assert (frame.epoch, frame.known) == (5, 7)
    assert said(one.flush(NOW)) == again
