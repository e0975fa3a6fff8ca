"""`FastPathDriver` by itself: decisions of a thread that no whole bus shows."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.kernel.wire import FrameType
from bus.process.acknowledgement_tracker import AcknowledgementTracker
from bus.process.fast_path_driver import FastPathDriver, _WaitableLink
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.messages import inbound_run
from tests.process.alone import Alone, LeaseOfOne, Peer, Short

if TYPE_CHECKING:
    from bus.process.inbox import Inbox

_ACK = bytes((FrameType.ACK.value,))


@clause("BUS-CHAN-7")
def test_a_frame_behind_a_frame_for_the_comm_thread_is_handed_over_too() -> None:
    alone = Alone()
    alone.host.main = True

    assert not alone.wait(b"+1", b"other", b"+2")

    assert list(alone.todo) == [b"+1"]
    assert list(alone.given) == [(1, b"other"), (1, b"+2")]
    assert alone.calls == ["wake", "act 1", "soon"]


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
def test_an_interruptible_thread_performs_one_action(*, interrupted: bool) -> None:
    alone = Alone()
    alone.host.main = interrupted

    alone.wait(b"+1")

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


@clause("QB-ERR-9", "BUS-CHAN-7")
@pytest.mark.parametrize("where", ["receive", "act"])
def test_the_comm_thread_does_what_an_interrupted_thread_leaves(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """where: the step that is interrupted, with an action queued."""
    alone = Alone()
    alone.host.main = alone.exchange.unfinished = True
    step = getattr(FastPathDriver, where)

    def interrupted(*arguments: Any, **named: Any) -> None:
        if where == "receive":
            step(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(FastPathDriver, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        alone.wait(b"+1")

    assert alone.todo == deque([b"+1"])
    assert "request_flush" in alone.calls


@clause("QB-ERR-9", "BUS-CHAN-7")
def test_a_thread_that_is_interrupted_with_a_frame_ends_its_link_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the comm thread handles the next frame, which it may have read by then."""
    alone, aborted = Alone(), list[tuple[int, bool]]()
    hold = alone.fast_path_driver.hold
    alone.link_pool.abort = lambda link: aborted.append((link, hold.locked()))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FastPathDriver, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        alone.wait(b"+1")

    assert aborted == [(1, True)]


@clause("BUS-CHAN-5")
def test_the_comm_thread_is_woken_when_a_peer_disconnects() -> None:
    alone = Alone()

    alone.wait(ended=True)

    assert alone.calls == ["stir 1", "wake"]


@clause("QB-ERR-9", "BUS-RELAY-9")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_an_answer_tells_that_its_question_was_taken(
    *, interrupted: bool, refused: bool
) -> None:
    """Also in a thread that may be interrupted.

    refused: the answer waits for the comm thread, and so does the note.
    """
    alone, notes = Alone(), AcknowledgementTracker(9, 9)
    alone.fast_path.refuses = refused
    peer: Any = Peer()
    place = SimpleNamespace(pending=lambda: False, ident=None, main=interrupted)
    question: Any = SimpleNamespace(
        _to=SimpleNamespace(host=place),
        _source=SimpleNamespace(mailbox=SimpleNamespace(peer=peer)),
        _receipt=SimpleNamespace(peer=peer),
        _number=1,
        _size=1,
    )
    notes.note(question)
    alone.acknowledgement_tracker.is_first = notes.is_first
    alone.acknowledgement_tracker.take_first = notes.take_first
    alone.fast_path_driver._waitable_links[peer] = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", LeaseOfOne())
    )

    alone.fast_path_driver.answer(question, b"payload", None)

    told = not refused
    assert alone.fast_path.extracted is (question if told else None)
    assert bool(notes.take(0.0)) is not told


class _NotedLease(LeaseOfOne):
    """A read lease that records when it is taken and left."""

    def __init__(self, calls: list[str], *, free: bool = True) -> None:
        super().__init__()
        self._calls, self._free = calls, free

    def take(self, inbox: Inbox, _: bytes | None = None) -> bool:
        self._calls.append("take")
        if self._free:
            self.holder = inbox
        return self._free

    def leave(self, _: Inbox | None = None) -> None:
        self._calls.append("leave")


@clause("QB-ERR-9", "BUS-CHAN-7")
def test_a_lease_whose_return_was_interrupted_is_taken_again() -> None:
    """The next wait used to sleep at it without the lease, or raised."""
    alone, lease = Alone(), LeaseOfOne(b"frame")
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )
    alone.host.leased = waitable
    lease.holder = None  # the interrupt came behind that

    waitable.wait(alone.host, None)

    assert lease.holder is alone.host.inbox
    assert lease.slept == 1


@clause("BUS-CHAN-7", "BUS-MSG-11")
@pytest.mark.parametrize("then", ["something is to be done", "it serves no more"])
def test_a_thread_that_does_not_wait_after_all_leaves_the_link(then: str) -> None:
    """Frames that arrive there may be for others."""
    alone, host = Alone(), ThreadManager("asks")
    host.adopt()
    host.waits_next = True
    alone.ask(host, _NotedLease(alone.calls))
    host.link_wait = None
    left = list[bool]()

    if then == "something is to be done":
        host.ask(lambda: left.append("leave" in alone.calls))
    host.poll(0)

    assert all(left)
    assert alone.calls[-1] == "leave"
    assert host.leased is None
    assert not host.waits_next


class LeaseOfParts(LeaseOfOne):
    """The read lease of a long frame, with its missing bytes after each read."""

    def __init__(self, *missing_bytes: int) -> None:
        super().__init__()
        self.to_come = list(missing_bytes)

    def read(self) -> list[bytes]:
        self.missing_bytes = self.to_come.pop(0)
        self.left += not self.missing_bytes
        return [] if self.missing_bytes else [b"+1"]


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("missing_bytes", [(300, 300), (300, 301), (0,)])
def test_a_thread_woken_for_another_reason_leaves_an_incomplete_frame(
    missing_bytes: tuple[int, ...],
) -> None:
    """As soon as no more of it arrives: the reason for the wake-up may be waiting."""
    alone, lease = Alone(), LeaseOfParts(*missing_bytes, 100, 0)
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, None)

    assert (lease.slept, lease.left) == (len(missing_bytes), 1)


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("why", ["something else is here", "it is late", "main"])
def test_a_thread_with_other_work_leaves_an_incomplete_long_frame(why: str) -> None:
    """Even if more of it arrives; a thread that may be interrupted leaves it, too."""
    alone, lease = Alone(), LeaseOfParts(*range(300, 0, -1))
    deadline = _sync.monotonic() if why == "it is late" else None
    alone.host.pending = lambda: why == "something else is here"
    alone.host.main = why == "main"
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )

    waitable.wait(alone.host, deadline)

    assert (len(lease.to_come), lease.left) == (299, 1)


@clause("QB-ERR-9")
def test_a_thread_that_is_interrupted_as_it_leaves_ends_no_link() -> None:
    """It has no frame that it has read and not processed."""
    alone, lease = Alone(), LeaseOfOne()

    def leave(_: Inbox | None = None) -> None:
        lease.left += 1
        if lease.left == 1:
            raise KeyboardInterrupt

    lease.leave = leave  # type: ignore[method-assign]
    waitable = _WaitableLink(
        alone.fast_path_driver, cast("Any", alone.fast_path), cast("Any", lease)
    )
    with pytest.raises(KeyboardInterrupt):
        waitable.wait(alone.host, None)

    assert alone.calls == []


def test_a_thread_leaves_the_link_after_several_waits_in_vain() -> None:
    lease: Any = LeaseOfOne()
    alone = Alone()
    waitable = _WaitableLink(alone.fast_path_driver, cast("Any", Short()), lease)

    waits = [waitable.wait(alone.host, None) for _ in range(8)]

    assert waits == [True] * 7 + [False]


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("wanted", [False, True])
def test_a_thread_that_read_no_short_frame_leaves_the_link_unless_wanted(
    *, wanted: bool
) -> None:
    """Long messages are better read by another thread, while callbacks run."""
    alone = Alone()
    attend = alone._run_urgent_part

    def attends() -> None:
        attend()
        waitable.wanted |= wanted

    alone.fast_path_driver._run_urgent_part = attends  # type: ignore[misc]
    short: Any = Short()
    lease: Any = LeaseOfOne(b"other")
    waitable = _WaitableLink(alone.fast_path_driver, short, lease)
    waitable.wanted = True  # from before

    assert waitable.wait(alone.host, None) is wanted
    assert alone.attended == [(1, b"other")]


@clause("BUS-RELAY-9", "BUS-FLOW-7")
@pytest.mark.parametrize("watched", [False, True])
def test_half_a_window_of_notifications_is_acknowledged_at_once(
    monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    """Also in an exchange, in which the comm thread would sleep on for long."""
    alone = Alone()
    acks = alone.fast_path.peer.acks
    monkeypatch.setattr(acks, "in_exchange", watched)
    monkeypatch.setattr(acks, "is_urgent", True)

    alone.wait(b"+1")

    assert alone.calls == ["request_flush", "act 0"]


@clause("BUS-CHAN-7")
@pytest.mark.parametrize(
    ("count", "size", "main", "offered"),
    [
        (16, 4096, False, True),
        (15, 64, False, False),
        (16, 4097, False, False),
        (16, 64, True, False),
    ],
)
def test_only_for_many_short_commands_a_thread_is_offered_the_link(
    *, count: int, size: int, main: bool, offered: bool
) -> None:
    """The main thread never waits there: it could be interrupted."""
    alone = Alone()
    source = SimpleNamespace(mailbox=SimpleNamespace(peer=object()))
    run = inbound_run([bytes(size)] * count, source=source)
    waitable: Any = SimpleNamespace(
        fast_path=SimpleNamespace(is_current=True), wanted=False
    )
    alone.fast_path_driver._waitable_links[run.source.mailbox.peer] = waitable
    alone.host.main, alone.host.link_wait = main, None

    alone.fast_path_driver.offer_link(run, alone.host)

    assert alone.host.link_wait is (waitable if offered else None)
    assert waitable.wanted is offered
