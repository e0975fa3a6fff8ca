"""`Rounds`: the work of the comm thread from one sleep to the next.

In one round, the thread takes in the frames from the links and the messages posted by
tasks. The manager decides on all of them at once, and the thread then sends the
resulting frames. So messages that queue up together are sent together, and a single
message leaves at once (BUS-CHAN-6).

Any thread may make the decisions, but only one thread at a time touches the links,
usually the comm thread. Actions on links wait in ``link_actions``, in the order of the
decisions.

`FrameReaders` reads the frames of links, or the reason why a link has ended. A frame
may arrive in two pieces, its head and a long body, so each link has its own reader.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.errors import HorizonError, WireError
from bus.kernel.hooks import Bodies
from bus.kernel.tasks.actions import Dial, HangUp, Send
from bus.kernel.wire import FOLLOWS_MIN, Frame, FrameReader
from bus.model.error_text import error_text_of
from bus.process.acknowledgement_tracker import AcknowledgementTracker
from queuebroker import _sync
from queuebroker.sockets import ProtocolError, RemoteError, SocketMessageQueue

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterable

    from bus.kernel.hooks import Watcher
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.exchange import Exchange
    from bus.process.inbox import Inbox
    from bus.process.link_pool import LinkPool, LinkSetup
    from bus.process.relay_outbox import Posted, RelayOutbox
    from bus.process.thread_manager import Request
    from bus.process.verdict import JoinState

__all__ = ["FrameReaders", "Read", "Rounds"]


class Read(Struct, frozen=True, eq=False):
    """One item read from a link: a frame, one to be skipped, none, or the end.

    error: set if the data is not a frame, or broke the rules of links.
    lost: True for the end of the link.
    mid_io: True if the link ended without a farewell: its process died.
    why: the peer's reason for ending the link; "" for none.
    """

    frame: Frame | None = None
    error: WireError | None = None
    lost: bool = False
    mid_io: bool = False
    why: str = ""


class FrameReaders:
    """The readers of a process's links; used under `Rounds.hold`.

    midway: the readers of the links whose next bytes are the body of a long message, by
      the numbers of the links. A link without one is read from the start of a frame.

    cause: returns why a link ended without a farewell, by its number; see
      `LinkPool.cause`.
    resolve_body: see `Bodies.resolve_body`.
    message_bytes_max: maximum length of a message body (OPEN-6). A body too short for a
      frame of its own is always allowed, since error reports need that much.
    """

    __slots__ = ("_cause", "_message_bytes_max", "_resolve_body", "midway")

    def __init__(
        self,
        cause: Callable[[int], BaseException | None],
        resolve_body: Callable[[int, Frame], Frame],
        message_bytes_max: int,
    ) -> None:
        self._cause: Final = cause
        self._resolve_body: Final = resolve_body
        self._message_bytes_max: Final = max(message_bytes_max, FOLLOWS_MIN)
        self.midway: Final[dict[int, FrameReader]] = {}

    def read(self, number: int, data: bytes | None) -> Read:
        """Read one item from a link; ``data`` is None at its end."""
        if data is None:
            self.forget(number)
            cause = self._cause(number)
            if isinstance(cause, ProtocolError):
                # The link was closed for that, and the peer notified. The rest is
                # handled like any other violation (BUS-WIRE-4, BUS-SEC-10).
                return Read(error=WireError(str(cause)))
            if isinstance(cause, RemoteError):
                # The peer lives, and closed the link because of an error of this
                # process.
                return Read(lost=True, why=str(cause) or cause.kind or "no reason")
            return Read(lost=True, mid_io=cause is not None)
        reader = self.midway.pop(number, None) or FrameReader(self._message_bytes_max)
        try:
            frame = reader.read(data)
            if frame is None:
                self.midway[number] = reader
                return Read()
            return Read(self._resolve_body(number, frame))
        except WireError as error:
            return Read(error=error)

    def forget(self, number: int) -> None:
        """Forget the reader of a link that was lost or closed."""
        self.midway.pop(number, None)


class Rounds:
    """The rounds of one process, and the reasons for the next one; its `Process`.

    The comm thread makes them. A task thread that reads a link makes the urgent part of
    one in its place: see `bus.process.fast_path_driver`.

    Args:
        exchange, remote, relay_outbox, link_pool, link_setup, join_state: the instances
            of this process.

    Attributes:
        hold: the lock for using a link.
        given: the frames that other threads read for the comm thread, with their links,
            in order.
        inbox: the requests to the comm thread, which go first.
        link_actions: the pending actions on links.
        errors: as of the outbox.
        links_reserved: True if only the comm thread, or no thread, may use the links.
        watcher: sees the frames of all links; None if no feature asks for them.
        closed: True once no other thread may run the urgent part.
        settles: True if receipts are to be settled, after an internal error; any thread
            may set it.
        ask: see `Process.ask`.
        readers: the frames that arrive in two pieces.
        bodies: the slot for the bodies of long messages.
        acknowledgement_tracker: the messages that tasks have taken.

    Lock: a thread that touches links holds ``hold``: the comm thread for a round, a
    task thread while it sends or handles received frames. Only the locks that a thread
    holds while it serves come before it: see `bus.process.exchange`. The locks of the
    exchange, of an inbox, of a link and of `Bodies` are taken under it. The holder
    makes no callback and waits for no other thread. It guards ``given``, ``closed``,
    ``watcher`` and ``links_reserved``.

    Invariant: the frames in ``given`` arrived before all unread frames of their link.
    """

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        relay_outbox: RelayOutbox,
        link_pool: LinkPool,
        link_setup: LinkSetup,
        join_state: JoinState,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._relay_outbox: Final = relay_outbox
        self._link_pool: Final = link_pool
        self._link_setup: Final = link_setup
        self._join_state: Final = join_state
        config = remote.topology.config
        self.ask: Final = relay_outbox.ask
        self.bodies: Final = next(
            (each.bodies(self) for each in exchange.hooks if each.bodies), Bodies()
        )
        self.readers: Final = FrameReaders(
            link_pool.cause, self.bodies.resolve_body, config.message_bytes_max
        )
        self.acknowledgement_tracker: Final = AcknowledgementTracker(
            max(1, config.window // 4), max(1, config.window_bytes // 4)
        )
        self.hold: Final[_thread.LockType] = _sync.Lock()
        self.given: Final[deque[tuple[int, bytes]]] = deque()
        self.inbox: Final[Inbox] = relay_outbox.inbox
        self.errors: Final = relay_outbox.errors
        self.link_actions: Final[deque[Send | HangUp | Dial]] = deque()
        self.links_reserved: bool = False
        self.watcher: Watcher | None = None
        self.closed: bool = False
        self.settles: bool = False
        # True if another thread requested a flush; number of requests by this thread.
        self._requested: bool = False
        self._own_flush_requests: int = 0
        # The thread that runs `run_urgent_part` in place of the comm thread; the
        # exception raised there.
        self._substitute: int | None = None
        self._fault: Exception | None = None
        # The posted items and the requests that are still to be handled. An error in a
        # round leaves them here.
        self._posted: Final[deque[Posted]] = deque()
        self._requests: Final[deque[Request]] = deque()
        self._timers: Final = remote.topology.timers
        # The first alarm that the sleeping comm thread knows of; infinite in a round.
        self._asleep_until: float = math.inf
        self._ack_delay_s: Final = config.ack_delay_s

    # For any thread.

    def request_flush(self) -> None:
        """Request a flush of the latest decisions to the other processes."""
        if self.is_in_turn():
            self._own_flush_requests += 1  # handled in `run`
        else:
            self._requested = True
            self.wake()

    def is_in_turn(self) -> bool:
        """Return True if the caller is the comm thread, or acts in its place."""
        ident = _sync.get_ident()
        if self._relay_outbox.ident == ident:
            return True
        return self._substitute == ident

    def wake(self) -> None:
        """Wake the comm thread, if it sleeps."""
        # The caller first notes its reason, then checks whether the comm thread sleeps.
        # The comm thread first notes that it sleeps, then checks for a reason to wake.
        # So one of the two sees the other, without a lock.
        arrived = self.inbox.arrived
        if arrived.asleep:
            with self.inbox.lock:
                arrived.wake_one()

    def fail(self, error: HorizonError) -> None:
        """End the comm thread, before it sends another frame (AMO-20)."""
        # Not under ``hold``, which the caller may have: this is set before any action
        # behind the failed one is performed, and no thread sends on the fast path while
        # an action is pending.
        self.links_reserved = True
        self._fault = error
        self.wake()

    def wake_soon(self) -> None:
        """Make sure that the comm thread wakes within ``ack_delay_s``."""
        if not self.acknowledgement_tracker.wakes_soon:
            self._requested = True
            self.wake()

    def wake_unless_soon(self) -> None:
        """Wake the comm thread, unless it wakes soon; takes no lock."""
        # The reason was noted first. The comm thread clears ``wakes_soon`` before it
        # takes the notes, and notes that it sleeps before it checks for them (`wake`).
        # So it takes this one, or is woken; in a round it needs no wake-up.
        if self.inbox.arrived.asleep and not self.acknowledgement_tracker.wakes_soon:
            self._link_pool.wake()

    def process_id(self, link: int) -> int | None:
        """Return the process at the other end of a link, if the system reports it."""
        try:
            queue = self._link_pool.queue(link)
        except KeyError:
            return None  # the link is lost
        return queue.peer.pid if isinstance(queue, SocketMessageQueue) else None

    def link_names(self) -> dict[int, str]:
        """Return the name of the process at each link."""

        def names() -> dict[int, str]:
            links = self._remote.links.by_number.items()
            return {at: link.peer.key[1] for at, link in links if link.peer is not None}

        # Not under ``hold``: its holder may wait for stable storage (AMO-20).
        found: dict[int, str] = self._exchange.query(names)
        return found

    def is_due(self) -> bool:
        """Return True if there is work other than frames from links."""
        return bool(
            self.inbox.items
            or self.link_actions
            or self._requested
            or self.acknowledgement_tracker.due
            or self.bodies.is_due(soon=self.acknowledgement_tracker.wakes_soon)
            or self.given
            or self._fault
        )

    # For the comm thread.

    def deadline(self, end_at: float | None) -> float | None:
        """Return the deadline of the next sleep.

        Also note in ``wakes_soon`` whether the thread then wakes soon enough to
        acknowledge.

        end_at: the time limit for the end of the thread; None before `CommThread.stop`.
        """
        # Without the exchange's lock. Another thread sets an alarm first; then it
        # requests a round, or checks ``wakes_soon`` or ``_asleep_until``, which `run`
        # has reset. So this call sees the alarm, or that thread requests a round, or
        # this thread wakes soon.
        at, tracker = self._timers.next(), self.acknowledgement_tracker
        self._asleep_until = math.inf if at is None else at
        soon = _sync.monotonic() + self._ack_delay_s
        tracker.wakes_soon = end_at is None and at is not None and at <= soon
        return _first(at, end_at, tracker.check_at)

    # Under ``hold``.

    def run(self) -> None:
        """Make a round; for the comm thread."""
        if self._fault is not None:
            raise self._fault
        # Before the notes of taken messages are collected: a task that takes a message
        # after that wakes this thread.
        self._requested = self.acknowledgement_tracker.wakes_soon = False
        self._asleep_until = math.inf
        frames = [*self._take_given(), *self._link_pool.take()]
        posted, requests = self._relay_outbox.take()
        self._posted.extend(posted)
        self._requests.extend(requests)
        self._handle_events(frames, _sync.monotonic())
        self._carry_out()
        self.end_bodies()
        self._link_pool.resume()
        self._relay_outbox.review()
        if self._fault is not None:
            raise self._fault
        if not self._join_state.settled:
            self._join_state.check_answer(
                self._remote.links, stands=self._remote.topology.has_master
            )

    def recover(self) -> None:
        """Abort all links after an error of a round; for the comm thread.

        The error may have lost frames, of those read or of those to be sent. Over the
        next link each end resends the frames that the other has not received.

        Raises:
            HorizonError: the error is final.
        """
        if isinstance(self._fault, HorizonError):
            raise self._fault
        self._fault = None
        self.given.clear()
        self._requested = True
        self._link_pool.abort_all()

    def run_urgent_part(self) -> None:
        """Do the urgent part of a round, in place of the comm thread.

        The caller must not be the main thread. It handles the frames that other threads
        have read and the messages taken since, and leaves the rest to the comm thread.
        """
        if self.closed or self._fault is not None:
            return
        self._substitute = _sync.get_ident()
        try:
            self._handle_events(self._take_given(), _sync.monotonic())
            self._send_first()  # a call: see `_sync.Lock`
            self.end_bodies()
            self._relay_outbox.review()
        except Exception as fault:  # noqa: BLE001 # raised again by that thread
            self._fault = fault
        finally:
            self._substitute = None
        if self.is_due() or self._link_pool.sending or not self._join_state.settled:
            self.wake()
        at = self._timers.next()
        if at is not None and at < self._asleep_until:
            self._requested = True  # the comm thread would sleep for too long
            self.wake()

    def _take_given(self) -> list[tuple[int, bytes]]:
        return [self.given.popleft() for _ in range(len(self.given))]

    def _handle_events(
        self,
        frames: Iterable[tuple[int, bytes | None]],
        now: float,
    ) -> None:
        """Let the manager decide on all events, and do the resulting actions."""
        came = [(number, self._read(number, data)) for number, data in frames]
        own_requests = self._own_flush_requests
        self._exchange.decide(lambda: self._decide(came, now))
        requests = len(self._requests)
        while self._requests:
            try:
                self._requests.popleft().run()
            except HorizonError:
                raise
            except Exception as error:  # noqa: BLE001 # confined to the request
                self.errors.append(error)
        # The first flush request belongs to that decision. Any others belong to
        # decisions made during the actions, such as disconnecting a task; they are sent
        # at once, too.
        if requests or self._own_flush_requests > own_requests + 1:
            self._exchange.decide(lambda: self._remote.flush(now))

    def _read(self, number: int, data: bytes | None) -> Read:
        try:
            return self.readers.read(number, data)
        except Exception as error:  # noqa: BLE001 # confined to the link
            self.errors.append(error)
            self.readers.forget(number)
            why = f"its own process failed: {error_text_of(error)}"
            return Read(error=WireError(why))

    def _decide(
        self,
        came: Iterable[tuple[int, Read]],
        now: float,
    ) -> list[Action]:
        """Let the manager decide on all events; see `RemoteManager`."""
        remote = self._remote
        actions: list[Action] = []
        for number, read in came:
            try:
                self._on_read(number, read, now, actions)
            except Exception as error:  # noqa: BLE001 # confined to the link
                self.errors.append(error)
                # Later frames of this link are ignored; they come again.
                actions += remote.on_internal_error(number, error, now)
        try:
            self._finish_decision(now, actions)
        except Exception as error:  # noqa: BLE001 # see `recover`
            # Not raised: the actions of the frames must be done.
            self._fault = self._fault or error
        return actions

    def _on_read(
        self, number: int, read: Read, now: float, actions: list[Action]
    ) -> None:
        """Let the manager decide on one item that was read from a link."""
        remote = self._remote
        if self.watcher is not None and read.frame is not None:
            self.watcher.on_frame(number, read.frame, out=False)
        if read.lost:
            actions += remote.on_link_lost(
                number, now, mid_io=read.mid_io, why=read.why
            )
            self.bodies.forget(number)
        elif read.error is not None:
            actions += remote.on_malformed(number, read.error, now)
        else:
            actions += remote.receive(number, read.frame, now)

    def _finish_decision(self, now: float, actions: list[Action]) -> None:
        """Let the manager decide on all events besides the frames."""
        remote = self._remote
        actions += self.bodies.take_ended()
        if taken := self.acknowledgement_tracker.take(now):
            remote.inbound_messages.on_extracted(taken, now)
        if self._posted:
            posted = self._posted.copy()
            self._posted.clear()
            self._relay_outbox.forward(posted, remote)
        # A substitute handles no deadline: it does the urgent part of a round.
        if self._relay_outbox.is_owner():
            actions += remote.tick(now)
        if self.settles and self._exchange.at_rest and not actions:
            # No message is on its way to a task: they all come by this thread, or under
            # ``hold``.
            self.settles = False
            settled = remote.inbound_messages.settle_receipts(self._is_idle, now)
            self.settles = self.settles or not settled
        actions += remote.flush(now)

    def _is_idle(self, task: Entry) -> bool:
        """Return True if a task has handled all its messages, and its thread sleeps."""
        host, mailbox, comm = task.host, task.mailbox, self._exchange.comm
        return (
            host is not None
            and host.inbox.arrived.asleep
            and not (host.pending() or mailbox.held or mailbox.items)
            and mailbox.client.has_callback  # else commands wait in the task itself
            and comm is not None
            and not comm.holds(task)
        )

    def end_bodies(self) -> None:
        """Put the data on links that go behind the bodies of this round."""
        for link, data in self.bodies.end_round():
            self._link_pool.send(link, data)

    def _carry_out(self) -> None:
        """Do the actions on links, in the order of the decisions."""
        self._send_first()
        while self.link_actions:
            action = self.link_actions.popleft()
            try:
                match action:
                    case Send():  # another thread has appended it since
                        self.link_actions.appendleft(action)
                    case HangUp(link):
                        self._link_pool.hang_up(link)
                        self.readers.forget(link)
                        self.bodies.forget(link)
                    case Dial() as dial:
                        self._link_setup.dial(dial)
            except MemoryError:
                self.link_actions.appendleft(action)  # both may be repeated
                raise
            self._send_first()

    def _send_first(self) -> None:
        """Send the frames before the first other action.

        Those for the same link go in one step, so that the process there wakes once.
        """
        if self._fault is not None:
            raise self._fault  # an acknowledgement may be among the frames
        watcher = self.watcher
        by_link: dict[int, list[bytes]] = {}
        while self.link_actions and type(self.link_actions[0]) is Send:
            send = self.link_actions.popleft()
            assert isinstance(send, Send)
            if watcher is not None:
                watcher.on_frame(send.link, send.frame, out=True)
            pieces = self.bodies.pieces(send.link, send.frame)
            by_link.setdefault(send.link, []).extend(pieces)
        for link, pieces in by_link.items():
            self._link_pool.send_all(link, pieces)


def _first(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)
