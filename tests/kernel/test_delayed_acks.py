"""`DelayedAcks`: when the acknowledgements to one other process are due."""

from __future__ import annotations

import math

import pytest

from bus.kernel import constants
from bus.kernel.peer.delayed_acks import DelayedAcks
from bus.kernel.peer.relay import AUDIENCE
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.wire import Ack
from bus.model.config import BusConfig
from specs.clauses import clause
from tests.kernel.sessions import new_alarm

CONFIG = BusConfig(window=8, window_bytes=1000)
DELAY_S = CONFIG.ack_delay_s
NOW = 100.0


def notified(acks: DelayedAcks, number: int, now: float, size: int = 1) -> None:
    """Record a notification that arrived on the fast path."""
    acks.on_received(Acknowledgement(number + 1))
    acks.on_extracted(AUDIENCE, number, now, size)
    acks.check_rarely()


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_notifications_are_checked_as_rarely_as_an_exchange_and_acknowledged() -> None:
    """Within 50 delays of the first one, even if no other message follows."""
    acks = DelayedAcks(CONFIG, new_alarm())
    notified(acks, 1, NOW)
    check = acks.next_check(NOW, ready=True)

    assert check == NOW + 50 * DELAY_S
    assert acks.in_exchange
    assert not acks.is_urgent
    assert acks.is_due(check)  # so that round acknowledges
    [ack] = acks.take(1, 1)
    assert isinstance(ack, Ack)
    assert (ack.acknowledgement.next, list(ack.extracted)) == (2, [(AUDIENCE, 1)])
    assert acks.next_check(check, ready=True) is None
    assert not acks.is_due(check + 100.0)


@clause("BUS-RELAY-9")
def test_the_check_after_the_last_notification_is_not_rare() -> None:
    acks = DelayedAcks(CONFIG, new_alarm())
    notified(acks, 1, NOW)
    acks.next_check(NOW, ready=True)

    assert acks.next_check(NOW, ready=True) == NOW + DELAY_S


@clause("BUS-RELAY-10")
def test_no_acknowledgement_is_checked_for_without_a_link() -> None:
    acks = DelayedAcks(CONFIG, new_alarm())
    notified(acks, 1, NOW)

    assert acks.next_check(NOW, ready=False) is None
    assert not acks.in_exchange
    acks.on_link_open()  # the last acknowledgement may have been lost
    assert acks.is_due(NOW)


@clause("BUS-RELAY-9")
def test_the_alarm_is_set_at_most_once_for_each_delay() -> None:
    """By the first message that is not acknowledged, not by each one."""
    alarm = new_alarm()
    acks = DelayedAcks(CONFIG, alarm)
    acks.on_extracted(1, 1, NOW)
    assert alarm.at <= NOW + DELAY_S
    alarm.at = NOW + DELAY_S  # the next tick has called `next_check`

    acks.acknowledge_by(1)
    acks.on_extracted(1, 2, NOW + DELAY_S / 2)

    assert alarm.at == NOW + DELAY_S


@clause("BUS-RELAY-9")
def test_no_message_of_an_exchange_sets_the_alarm() -> None:
    """It is set for a later check, which suffices."""
    alarm = new_alarm()
    acks = DelayedAcks(CONFIG, alarm)
    acks.acknowledge_by(1)
    check = acks.next_check(NOW, ready=True)
    assert check is not None
    alarm.at = check

    acks.on_extracted(1, 2, NOW)

    assert alarm.at == check
    assert acks.next_check(check, ready=True) == NOW + DELAY_S


@clause("BUS-RELAY-10")
def test_a_new_link_sets_the_alarm_for_an_extraction_before_it() -> None:
    """Without a link the alarm has passed in vain."""
    alarm = new_alarm()
    acks = DelayedAcks(CONFIG, alarm)
    acks.on_extracted(1, 1, NOW)
    alarm.at = math.inf

    acks.on_link_open()

    assert alarm.at <= NOW + DELAY_S


@clause("BUS-RELAY-9", "BUS-RELAY-11")
@pytest.mark.parametrize(("count", "size"), [(4, 1), (1, 500), (2, 250)])
def test_half_a_window_of_notifications_is_urgent(count: int, size: int) -> None:
    """Their sender would wait for room, or drop notifications."""
    acks = DelayedAcks(CONFIG, new_alarm())
    for number in range(1, count):
        notified(acks, number, NOW, size)
        assert not acks.is_urgent
    notified(acks, count, NOW, size)

    assert acks.is_urgent
    assert acks.is_due(NOW)
    acks.take(1, 1)
    assert not acks.is_urgent


@clause("BUS-RELAY-9", "AMO-13")
def test_half_a_window_of_the_stream_is_urgent_if_that_of_a_task_is_longer() -> None:
    """The extraction of a message tells that it has arrived, too."""
    half = constants.STREAM_WINDOW // 2
    acks = DelayedAcks(BusConfig(window=4 * half), new_alarm())

    acks.on_extracted(1, half - 1, NOW)
    assert not acks.is_urgent
    acks.on_extracted(1, half, NOW)
    assert acks.is_urgent


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("other", ["none", "task", "control", "gap"])
def test_an_answer_leaves_due_only_what_it_does_not_acknowledge(other: str) -> None:
    """Then the extraction of its question is due with the rest.

    other: the rest that is not acknowledged when the task answers.
    """
    acks = DelayedAcks(CONFIG, new_alarm())
    if other == "task":
        acks.on_extracted(2, 1, NOW)
    elif other == "control":
        acks.count_control()
    missing = ((1, 2),) if other == "gap" else ()
    acks.on_received(Acknowledgement(3, missing))

    acknowledged = acks.acknowledge_by(1, (2, NOW, 1))

    assert acknowledged == ((0, 0) if missing else (2, 2))
    assert acks.is_due(NOW + DELAY_S) is (other != "none")
    if other == "none":
        acks.on_link_open()  # the frame may be lost
    [ack] = acks.take(1, 1)
    assert isinstance(ack, Ack)
    assert (1, 2) in ack.extracted
