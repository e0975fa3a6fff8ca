"""`FastPathDriver` by itself: its treatment of frames, and the threads it wakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bus.core.wire import FrameType
from bus.links.fast_path_driver import _WaitableLink
from bus.threads.fast_delivery import FastDelivery
from specs.clauses import clause
from tests.kit.clock import Clock
from tests.links.alone import Alone, LeaseOfOne, Peer

_ACK = bytes((FrameType.ACK.value,))


@clause("BUS-FLOW-7")
def test_the_comm_thread_wakes_soon_for_messages_that_bypassed_it() -> None:
    """It has to acknowledge the messages in time."""
    alone = Alone()

    assert alone.wait(b"+1")

    assert alone.calls == ["soon", "act 0"]
    assert list(alone.todo) == [b"+1"]


@clause("BUS-CHAN-7")
def test_a_frame_behind_a_frame_for_the_comm_thread_is_handed_over_too() -> None:
    alone = Alone()
    alone.host.main = True

    assert not alone.wait(b"+1", b"other", b"+2")

    assert list(alone.todo) == [b"+1"]
    assert list(alone.given) == [(1, b"other"), (1, b"+2")]
    assert alone.calls == ["wake", "act 1", "soon"]


@clause("BUS-CHAN-7", "BUS-MSG-15")
def test_an_uninterruptible_thread_handles_all_frames_that_it_has_read() -> None:
    """At once, after the frames that came before."""
    alone = Alone()

    alone.wait(b"+1", b"other", b"+2")

    assert list(alone.todo) == [b"+1"]
    assert alone.attended == [(1, b"other"), (1, b"+2")]
    assert alone.calls == ["urgent part", "act 0"]
    assert not alone.given


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("interrupted", [False, True])
def test_taken_messages_are_acknowledged_before_the_thread_sleeps(
    *, interrupted: bool
) -> None:
    """The thread acknowledges them itself, unless it may be interrupted.

    Their sender may wait for the acknowledgement.
    """
    alone = Alone()
    alone.host.main, alone.acknowledgement_tracker.due = interrupted, True

    alone.wait()
    alone.wait()

    assert alone.calls == ([] if interrupted else ["urgent part"])


@clause("BUS-CHAN-7")
def test_a_message_already_in_its_mailbox_needs_no_further_action() -> None:
    alone = Alone()
    alone.delivery = FastDelivery.DELIVERED

    assert alone.wait(b"+1")

    assert alone.calls == ["soon"]


@clause("BUS-CHAN-7")
def test_frames_that_follow_handed_over_frames_are_handed_over() -> None:
    alone = Alone()
    alone.host.main = True
    alone.wait(b"other")

    alone.wait(b"+1")

    assert not alone.todo
    assert list(alone.given) == [(1, b"other"), (1, b"+1")]


@clause("BUS-ROUTE-4")
@pytest.mark.parametrize("something", [False, True])
def test_a_thread_that_gets_a_message_while_it_acknowledges_does_not_sleep(
    *, something: bool
) -> None:
    """The message is in its own mailbox: no other thread would wake it for that."""
    alone, lease = Alone(), LeaseOfOne()
    due = alone.acknowledgement_tracker
    due.due, alone.host.pending = True, lambda: something and not due.due
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, None)

    assert alone.calls == ["urgent part"]
    assert lease.slept == (not something)


@clause("QB-ERR-9")
@pytest.mark.parametrize("interrupted", [False, True])
def test_an_interruptible_thread_takes_only_answers_and_performs_one_action(
    *, interrupted: bool
) -> None:
    """An interrupt may lose a message; only an answer may be delivered twice."""
    alone = Alone()
    alone.host.main = interrupted

    alone.wait(b"+1")

    assert alone.fast_path.answers_only is interrupted
    assert alone.calls == ["soon", *(["act 1", "soon"] if interrupted else ["act 0"])]


@clause("QB-ERR-9", "BUS-CHAN-7")
@pytest.mark.parametrize("more", [False, True])
def test_work_that_an_interruptible_thread_leaves_is_done_at_once(
    *, more: bool
) -> None:
    """The comm thread does it, which would sleep on for long in an exchange."""
    alone = Alone()
    alone.host.main, alone.exchange.unfinished = True, more

    alone.wait(b"+1", b"+2")

    assert ("request_flush" in alone.calls) is more


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("watched", [False, True])
def test_in_an_exchange_the_comm_thread_is_left_asleep(
    monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    """The next message acknowledges the last; the comm thread handles the end."""
    alone = Alone()
    monkeypatch.setattr(alone.fast_path.peer.acks, "in_exchange", watched)

    alone.wait(b"+1")

    assert ("soon" in alone.calls) is not watched


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("watched", [False, True])
def test_messages_that_a_frame_leaves_unacknowledged_are_acknowledged_soon(
    monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    """The comm thread may have gone to sleep before any acknowledgement was due."""
    alone = Alone()
    monkeypatch.setattr(Peer.session, "ack_at", 1.0)
    monkeypatch.setattr(Peer.acks, "in_exchange", watched)

    assert alone.ask()

    assert ("soon" in alone.calls) is not watched


@clause("BUS-CHAN-6", "BUS-CHAN-7")
def test_commands_that_follow_one_another_fast_go_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But a caller waiting for an answer does not wait for another command."""
    alone, clock = Alone(), Clock.installed(monkeypatch, 0.0)

    def sent() -> bool:
        return alone.ask(wants_reply=False)

    assert [sent(), sent()] == [True, False]
    clock.now += 0.0001
    assert not sent()
    clock.now += 0.00015  # since the last command, not the last on the fast path
    assert not sent()
    assert alone.ask()
    clock.now += 0.00025
    assert sent()


@clause("BUS-CHAN-7")
def test_the_body_of_a_long_message_is_taken_for_no_frame() -> None:
    alone = Alone()
    alone.midway.add(1)

    alone.wait(b"+1")

    assert not alone.todo
    assert alone.attended == [(1, b"+1")]


@clause("OPEN-12")
def test_the_comm_thread_reads_all_frames_while_they_are_recorded() -> None:
    """It is the one that shows them to the recorder."""
    alone = Alone()
    rounds: Any = alone.fast_path_driver._rounds
    rounds.links_reserved = True

    alone.wait(b"+1")

    assert not alone.todo
    assert alone.attended == [(1, b"+1")]


@clause("BUS-MSG-15")
def test_whether_anything_goes_first_is_looked_at_while_nothing_is_done() -> None:
    """Else another thread could decide and act between the check and the frame."""
    alone = Alone()

    assert alone.ask()

    assert alone.calls[:2] == ["locked", "busy?"]


@clause("BUS-CHAN-6")
def test_a_frame_that_finds_its_link_full_is_sent_when_there_is_room() -> None:
    """The comm thread sends it later, and has to be woken for that."""
    alone = Alone()

    assert alone.ask()

    assert alone.calls[2:] == ["full 1", "stir 1", "wake"]


def test_an_acknowledgement_drives_no_thread_from_a_link() -> None:
    alone = Alone()
    alone.host.main = True

    assert alone.wait(_ACK)

    assert list(alone.given) == [(1, _ACK)]
    assert alone.calls == ["wake"]


@clause("BUS-CHAN-5")
def test_the_comm_thread_is_woken_when_a_peer_disconnects() -> None:
    alone = Alone()

    alone.wait(ended=True)

    assert alone.calls == ["stir 1", "wake"]


@clause("QB-ERR-9", "BUS-RELAY-9")
@pytest.mark.parametrize("interrupted", [False, True])
def test_an_answer_tells_that_its_question_was_taken(
    monkeypatch: pytest.MonkeyPatch, *, interrupted: bool
) -> None:
    """Unless its thread may be interrupted: the note of a read takes several steps."""
    alone = Alone()
    taken, reported = [object()], list[object]()
    alone.acknowledgement_tracker.take_single = lambda: taken
    remote: Any = SimpleNamespace(
        inbound_messages=SimpleNamespace(
            on_extracted=lambda each, _now: reported.extend(each)
        )
    )
    monkeypatch.setattr(alone.fast_path_driver, "_remote", remote)
    host = SimpleNamespace(pending=lambda: False, ident=None, main=interrupted)
    peer: Any = Peer()
    question: Any = SimpleNamespace(
        _to=SimpleNamespace(host=host),
        _source=SimpleNamespace(mailbox=SimpleNamespace(peer=peer)),
    )
    lease: Any = LeaseOfOne()
    alone.fast_path_driver._waitable_links[peer] = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), lease
    )

    assert alone.fast_path_driver.answer(question, b"payload")

    assert reported == ([] if interrupted else taken)
