"""QB-DISC: the effects of a disconnect on each end, step by step.

Messages are one byte each, so that every program here and in ``goodbyes`` also runs
over byte channels (QB-CHAN-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect
from specs.conformance.scenario import scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario()
@clause("QB-DISC-2")
def disconnected_turns_true_with_the_last_message(stage: Stage) -> None:
    """disconnected() is false while messages are unread and true once they are read."""
    for unread in range(4):
        left, right = stage.pair(capacity=4)
        for _ in range(unread):
            left.send(b"u")
        expect(right.disconnected(), False, "disconnected() of a connected end")

        left.disconnect()

        expect(left.disconnected(), True, "disconnected() of the end that hung up")
        for number in range(unread):
            expect(right.disconnected(), False, f"disconnected(), {number} read")
            right.receive()
        expect(right.disconnected(), True, f"disconnected(), all {unread} read")


@scenario()
@clause("QB-DISC-3")
def after_a_local_disconnect_all_raises(stage: Stage) -> None:
    """After disconnect() send and receive on that end raise, unread messages or not."""
    left, right = stage.pair()
    right.send(b"u")

    left.disconnect()

    for _ in range(2):
        stage.refuses(None, left.receive)
        stage.refuses(None, left.send, b"s")
    expect(left.disconnected(), True, "disconnected() of the end that hung up")
    left.disconnect()


@scenario("bounded")
@clause("QB-DISC-4")
def a_local_disconnect_releases_send_and_receive(stage: Stage) -> None:
    """A send and a receive that wait on an end are released when it disconnects."""
    left, _, _ = stage.full_pair()
    waiting = [stage.spawn(left.send, b"s"), stage.spawn(left.receive)]
    stage.waits(*waiting)

    hung_up_at = stage.now()
    hang_up = stage.spawn(left.disconnect)

    stage.promptly(hung_up_at, hang_up, *waiting)
    stage.value(hang_up)
    stage.raises(None, *waiting)


@scenario()
@clause("QB-DISC-4")
def a_local_disconnect_releases_every_receive(stage: Stage) -> None:
    """All receives that wait on an end are released when it disconnects."""
    left, _ = stage.pair()
    waiting = [stage.spawn(left.receive) for _ in range(3)]
    stage.waits(*waiting)

    hung_up_at = stage.now()
    hang_up = stage.spawn(left.disconnect)

    stage.promptly(hung_up_at, hang_up, *waiting)
    stage.raises(None, *waiting)


@scenario()
@clause("QB-DISC-5")
def what_came_before_the_goodbye_can_be_read_late(stage: Stage) -> None:
    """Messages accepted before the peer hung up stay, however late they are read."""
    left, right = stage.pair(capacity=3)
    for message in (b"1", b"2", b"3"):
        left.send(message)

    stage.value(stage.spawn(left.disconnect))

    for message in (b"1", b"2", b"3"):
        stage.settle()
        expect(stage.at_once(right.receive), message, "received after the goodbye")
    stage.refuses(None, right.receive)


@scenario()
@clause("QB-DISC-6")
def a_send_while_half_is_dropped(stage: Stage) -> None:
    """With unread messages after the peer hung up, sends return and store nothing."""
    left, right = stage.pair(capacity=2)
    left.send(b"1")
    left.send(b"2")
    left.disconnect()

    for _ in range(5):
        expect(stage.at_once(right.send, b"d"), None, "send() while half returned")

    expect(right.receive(), b"1", "received after dropped sends")
    expect(stage.at_once(right.send, b"d"), None, "send() while half returned")
    expect(right.receive(), b"2", "received after dropped sends")
    stage.refuses(None, right.send, b"d")


@scenario("bounded")
@clause("QB-DISC-6")
def a_full_buffer_does_not_hold_a_send_while_half(stage: Stage) -> None:
    """While half, a new send returns at once also where the peer's buffer was full."""
    left, right, _ = stage.full_pair()
    right.send(b"u")

    right.disconnect()

    expect(stage.at_once(left.send, b"d"), None, "send() while half returned")
    expect(left.receive(), b"u", "received after a dropped send")


@scenario()
@clause("QB-DISC-7")
def a_remote_disconnect_releases_waiting_receives(stage: Stage) -> None:
    """Receives that wait are released when the peer hangs up."""
    left, right = stage.pair()
    waiting = [stage.spawn(left.receive) for _ in range(2)]
    stage.waits(*waiting)

    hung_up_at = stage.now()
    stage.value(stage.spawn(right.disconnect))

    stage.promptly(hung_up_at, *waiting)
    stage.raises(None, *waiting)


@scenario("bounded")
@clause("QB-DISC-7", "QB-DISC-12")
def a_remote_disconnect_releases_waiting_sends(stage: Stage) -> None:
    """Sends that wait raise when the peer hangs up, messages to read or not."""
    for unread in (0, 1):
        left, right, _ = stage.full_pair()
        for _ in range(unread):
            right.send(b"u")
        waiting = [stage.spawn(left.send, b"w") for _ in range(2)]
        stage.waits(*waiting)

        hung_up_at = stage.now()
        stage.value(stage.spawn(right.disconnect))

        stage.promptly(hung_up_at, *waiting)
        stage.raises(None, *waiting)


@scenario("bounded")
@clause("QB-DISC-8")
def a_disconnect_waits_for_nobody(stage: Stage) -> None:
    """disconnect() returns at once with calls waiting at both ends and full buffers."""
    for hangs_up in (0, 1):
        left, right, _ = stage.full_pair()
        waiting = [stage.spawn(left.send, b"w"), stage.spawn(left.receive)]
        stage.waits(*waiting)

        hung_up_at = stage.now()
        hang_up = stage.spawn((left, right)[hangs_up].disconnect)

        stage.promptly(hung_up_at, hang_up)
        stage.value(hang_up)
        stage.raises(None, *waiting)


@scenario()
@clause("QB-DISC-8")
def a_disconnect_does_not_wait_for_readers(stage: Stage) -> None:
    """disconnect() returns at once while receives wait at both ends."""
    left, right = stage.pair()
    waiting = [stage.spawn(left.receive), stage.spawn(right.receive)]
    stage.waits(*waiting)

    hung_up_at = stage.now()
    hang_up = stage.spawn(right.disconnect)

    stage.promptly(hung_up_at, hang_up)
    stage.value(hang_up)
    stage.raises(None, *waiting)


@scenario()
@clause("QB-DISC-10")
def disconnecting_again_does_nothing(stage: Stage) -> None:
    """A second disconnect on either end returns and changes nothing."""
    left, right = stage.pair()

    for _ in range(3):
        stage.at_once(left.disconnect)
        expect([left.disconnected(), right.disconnected()], [True, True], "state")
    for _ in range(2):
        stage.at_once(right.disconnect)
        expect([left.disconnected(), right.disconnected()], [True, True], "state")


@scenario()
@clause("QB-DISC-11")
def a_local_disconnect_discards_what_is_unread(stage: Stage) -> None:
    """The peer's later sends are dropped while it has messages to read, then raise."""
    left, right = stage.pair(capacity=2)
    right.send(b"x")
    left.send(b"1")

    left.disconnect()

    stage.refuses(None, left.receive)
    stage.at_once(right.send, b"d")
    expect(right.receive(), b"1", "received by the peer")
    stage.refuses(None, right.send, b"d")


@scenario("queue.pending")
@clause("QB-DISC-11")
def nothing_is_pending_after_a_local_disconnect(stage: Stage) -> None:
    """An end that hung up has nothing unread any more."""
    left, right = stage.pair(capacity=2)
    right.send(b"x")
    expect(left.pending, 1, "pending of an end with one unread message")

    left.disconnect()

    expect(left.pending, 0, "pending after the end hung up")


@scenario()
@clause("QB-DISC-12")
def with_nothing_unread_the_end_is_disconnected_at_once(stage: Stage) -> None:
    """Peer gone and nothing unread: disconnected, sends raise. Something: dropped."""
    for unread in (0, 1):
        left, right = stage.pair()
        for _ in range(unread):
            left.send(b"u")
        left.disconnect()

        expect(right.disconnected(), not unread, f"disconnected(), {unread} unread")
        if unread:
            stage.at_once(right.send, b"d")
        else:
            stage.refuses(None, right.send, b"d")


@scenario("queue.remote_disconnected")
@clause("QB-DISC-13")
def the_peers_disconnect_shows_while_half(stage: Stage) -> None:
    """remote_disconnected is true as soon as the peer hung up, also while half."""
    left, right = stage.pair()
    left.send(b"u")
    expect(right.remote_disconnected, False, "remote_disconnected while connected")

    left.disconnect()

    expect(right.remote_disconnected, True, "remote_disconnected while half")
    expect(
        left.remote_disconnected, False, "remote_disconnected of the end that hung up"
    )
    right.receive()
    expect(right.remote_disconnected, True, "remote_disconnected when all is read")


@scenario()
@clause("QB-DISC-14")
def a_disconnect_that_returned_is_seen(stage: Stage) -> None:
    """What begins after disconnect() returned sees it, in any thread, on either end."""
    left, right = stage.pair()

    stage.value(stage.spawn(left.disconnect))

    for end in (left, right):
        expect(stage.at_once(end.disconnected), True, "disconnected()")
        stage.refuses(None, end.receive)
        stage.refuses(None, end.send, b"d")
