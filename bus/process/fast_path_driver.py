"""`FastPathDriver`: the fast path, on which a task thread uses a link by itself.

Most of the cost of a round trip is the handover to the comm thread and the wake-up by
it. While that thread sleeps and has no earlier work, a task thread puts a single
command or answer on the link itself. A task thread that waits for the next message
waits at that link and takes the messages that arrive there. `FastPath` accounts for
them at once.

The task thread handles frames of other kinds in place of the comm thread, and
acknowledges the messages that its tasks have taken. Two threads that alternate for each
batch would cost more than the batch. The main thread leaves both jobs to the comm
thread, since it may be interrupted at any point.

An event loop cannot wait at one link. It keeps the read lease (`WatchedLease`), and
takes the messages when its poller reports the link as readable.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from bus.kernel.fast_path import BODY_MAX, FastPath
from bus.kernel.tasks.runs import InboundRun, OutboundRun, pack_payload
from bus.kernel.wire import FrameType
from bus.model.message import Incoming, Kind
from bus.process.relay_outbox import OutboundAnswer
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.kernel.peer.peer import Peer
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.wire import Batch
    from bus.model.payload import Payload
    from bus.process.accounts import AudienceAccount
    from bus.process.exchange import Exchange
    from bus.process.link_poller import ReadLease
    from bus.process.link_pool import LinkPool
    from bus.process.rounds import Rounds
    from bus.process.thread_manager import ThreadManager
    from queuebroker._net import Poller
    from queuebroker.sockets.read_lease import WatchedLease

__all__ = ["FastPathDriver"]

# A constant: on 3.11 the look-up of an enum member goes through its `__getattr__`.
_COMMAND: Final = Kind.COMMAND
_ACK: Final = bytes((FrameType.ACK.value,))  # the first byte of such a frame
# After this many waits without a message, a thread waits at its inbox again.
_IDLE_WAITS_MAX: Final = 8
# Minimum commands in a run, and maximum mean size in bytes, to wait at the link.
_MANY: Final = 16
_SHORT_MAX: Final = 4096
# A command without an answer counts as single if none was sent for this many seconds.
# Commands that follow faster share a frame.
_ALONE_S: Final = 0.0002


class FastPathDriver:
    """The links that task threads use themselves, by their peers.

    Args:
        exchange, remote, link_pool, rounds: the instances of this process.

    Lock: ``hold`` is `Rounds.hold`. The exchange's lock guards each replacement of
    ``_waitable_links`` by a changed copy; look-ups take no lock.
    """

    __slots__ = (
        "_acknowledgement_tracker",
        "_audience",
        "_bodies",
        "_commanded_at",
        "_exchange",
        "_exchange_lock",
        "_given",
        "_inbox",
        "_link_actions",
        "_link_pool",
        "_midway",
        "_remote",
        "_rounds",
        "_run_urgent_part",
        "_subscribed",
        "_todo",
        "_unsent",
        "_waitable_links",
        "_wake_soon",
        "hold",
    )

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        link_pool: LinkPool,
        rounds: Rounds,
        audience: AudienceAccount,
    ) -> None:
        self._exchange: Final = exchange
        self._audience: Final = audience
        self._remote: Final = remote
        self._link_pool: Final = link_pool
        self._rounds: Final = rounds
        self._acknowledgement_tracker: Final = rounds.acknowledgement_tracker
        self.hold: Final = rounds.hold
        self._bodies: Final = rounds.bodies
        self._given: Final = rounds.given
        self._inbox: Final = rounds.inbox
        self._link_actions: Final = rounds.link_actions
        # Used for each message, so looked up once.
        self._exchange_lock: Final = exchange._lock
        self._todo: Final = exchange._todo
        self._unsent: Final = link_pool.unsent
        self._midway: Final = rounds.readers.midway
        self._wake_soon: Final = rounds.wake_soon
        self._run_urgent_part: Final = rounds.run_urgent_part
        self._waitable_links: dict[Peer, _WaitableLink] = {}
        # The fast paths of the last notification: see `_fast_paths_from`.
        self._subscribed: tuple[int, Entry | None, list[FastPath] | None] = -1, None, []
        # Time of the last command without an answer. No lock: the value is a guess.
        self._commanded_at: float = -math.inf

    # For any thread.

    def send_now(self, message: Incoming, encoded: bytes | None = None) -> bool:
        """Put a command or a notification on its links at once.

        Return False if it must be posted as usual; then no process has it.

        encoded: the encoding of the payload of a command, if it is known.
        """
        if message.kind is not _COMMAND:
            return self._notify_now(message)
        if not (message.wants_reply or self._is_alone()):
            return False
        return self._send(message._to.mailbox.peer, message._source, message, encoded)

    def _is_alone(self) -> bool:
        now = _sync.monotonic()
        last, self._commanded_at = self._commanded_at, now
        return now - last >= _ALONE_S

    def answer(
        self,
        question: Incoming,
        payload: Payload,
        error: str | None,
        encoded: bytes | None = None,
    ) -> None:
        """Send the answer to a question from another process, at once or as usual.

        encoded: the encoding of the payload, if it is known.
        """
        source: Entry = question._to
        peer: Peer = question._source.mailbox.peer
        host = source.host
        try:
            if (
                error is not None
                or host is None
                or host.pending()  # those may be answered in the same frame
                or not self._send(
                    peer, source, question, encoded, payload, answers=True
                )
            ):
                self._inbox.push(OutboundAnswer(question, payload, error))
        finally:
            # Ends the task's send batches: no later command may overtake the answer.
            source.order = object()

    def _send(
        self,
        peer: Peer,
        source: Entry,
        message: Incoming,
        encoded: bytes | None,
        payload: Payload = None,
        *,
        answers: bool = False,
    ) -> bool:
        """Put a message on the link to a process; return False if it must wait.

        message: a command, or the question that is answered.
        payload: that of the answer.
        """
        hold, lock, waitable = self.hold, self._exchange_lock, None
        # This message may join the round under way. Or this thread holds the lock, and
        # runs a finalizer.
        if hold.locked() or lock.locked():
            return False
        try:
            with hold:
                with lock:
                    if self._has_earlier_work():
                        return False
                    waitable = self._waitable_links.get(peer)
                    if waitable is None or waitable.link != peer.session.link:
                        waitable = self._new_waitable_link(peer)
                        if waitable is None:
                            return False
                    frame = (
                        self._answer(waitable, message, payload, encoded)
                        if answers
                        else self._command(waitable, message, encoded)
                    )
                if frame is None:
                    return False
                host, sent = source.host, False
                if host is not None and host.ident == _sync.get_ident():
                    if host.waits_next:
                        sent = waitable.take_lease(host, frame)
                    host.link_wait = waitable
                if not (sent or self._put(waitable.link, frame)):
                    self.check_link(waitable.link)  # the comm thread sends it
            if not peer.acks.in_exchange and peer.session.ack_at is not None:
                self._wake_soon()  # the comm thread may sleep unaware of that deadline
        except BaseException:
            # The message may be noted as sent without being sent; a new link resends
            # it.
            if waitable is not None:
                self.abort_link(waitable.link)
            raise
        return True

    def _put(self, link: int, frame: bytes | Batch) -> bool:
        """Put a frame on a link; return False if a part of it waits for room there.

        If this is interrupted, the caller must abort the link.
        """
        if type(frame) is bytes and not self._bodies.ended_at:
            return self._link_pool.send(link, frame)
        done = self._link_pool.send_all(link, self._bodies.put(link, frame))
        self._rounds.end_bodies()
        return done

    def _has_earlier_work(self) -> bool:
        """Return True if something must go first; for a holder of the locks.

        That is an action that could send frames, or work of the comm thread.
        """
        return bool(
            self._todo
            or self._exchange._acting
            or self._given
            or self._inbox.items
            or self._link_actions
            or self._rounds.links_reserved
            or (self._unsent and self._link_pool.sending)
        )

    def _notify_now(self, notification: Incoming) -> bool:
        """Put a notification on the link of each process that subscribes."""
        if (
            notification.wants_reply
            or notification._trace is not None
            or notification._size > BODY_MAX
            or not self._is_alone()
            or self.hold.locked()
            or self._exchange_lock.locked()  # as in `_send`
        ):
            return False
        links: list[int] = []
        try:
            with self.hold:
                with self._exchange_lock:
                    frames = self._notify(notification, links)
                if frames is None:
                    return False
                for link, frame in frames:
                    if not self._put(link, frame):
                        self.check_link(link)
                    # It has its frame. A plain statement before the jump back: see
                    # `_sync.Lock`.
                    del links[0]
        except BaseException:
            # As in `_send`, for each process that has the notification on its account.
            for link in links:
                self.abort_link(link)
            raise
        return True

    def _notify(
        self, notification: Incoming, links: list[int]
    ) -> list[tuple[int, bytes | Batch]] | None:
        """Account for a notification as sent; return its frames.

        links: takes the links whose accounts may have the notification, in the order of
          the frames.
        """
        source, remote = notification._source, self._remote
        if self._has_earlier_work() or self._audience.has_gap(source):
            return None
        known = self._subscribed
        if known[0] != remote.manager.revision or known[1] is not source:
            known = self._subscribed = self._fast_paths_from(source)
        fast_paths = known[2]
        if fast_paths is None:
            return None
        flags, body = pack_payload(notification.payload)
        for fast_path in fast_paths:
            if not fast_path.may_notify(source, len(body)):
                return None
        if not (fast_paths or notification.subscriptions):
            source.no_subscriber += 1
        outbound_run = OutboundRun(
            Kind.NOTIFICATION,
            source,
            source.relay,
            0,
            flags,
            0,  # it never waits
            None,
            (body,),
            len(body),
        )
        frames = []
        for fast_path in fast_paths:
            links.append(fast_path.link)
            frames.append((fast_path.link, fast_path.notification(outbound_run)))
        self._audience.bypassed += 1
        return frames

    def _fast_paths_from(
        self, source: Entry
    ) -> tuple[int, Entry, list[FastPath] | None]:
        """Look up the fast paths to the processes that subscribe to a task.

        Return them with the revision for which they hold, and the task. They are None
        if one of the processes has no link that a task thread may use.
        """
        revision = self._remote.manager.revision
        fast_paths = []
        for peer in self._remote.subscribed_peers(source):
            waitable = self._waitable_links.get(peer)
            if waitable is None or waitable.fast_path.link != peer.session.link:
                waitable = self._new_waitable_link(peer)
            if waitable is None:
                return revision, source, None
            fast_paths.append(waitable.fast_path)
        return revision, source, fast_paths

    def _command(
        self,
        waitable: _WaitableLink,
        command: Incoming,
        encoded: bytes | None,
    ) -> bytes | Batch | None:
        """Account for a command as sent, and return its frame; None if it must wait.

        It makes no decision of the manager.
        """
        now = _sync.monotonic()
        if not command.wants_reply:
            return waitable.fast_path.command(command, now, encoded)
        last, asker = waitable.question, command._source
        if len(asker.mailbox.client.questions.open) > 1 or (
            last is not None
            and last._source is not asker  # its question is this one
            and last._id in last._source.mailbox.client.questions.open
        ):
            return None  # shared frames serve a steady stream of questions better
        frame = waitable.fast_path.command(command, now, encoded)
        if frame is not None:
            waitable.question = command
        return frame

    def _answer(
        self,
        waitable: _WaitableLink,
        question: Incoming,
        payload: Payload,
        encoded: bytes | None,
    ) -> bytes | Batch | None:
        """Account for an answer as sent, and return its frame; as `_command`."""
        host, tracker = question._to.host, self._acknowledgement_tracker
        if host is None or not tracker.is_first(question):
            return waitable.fast_path.answer(question, payload, encoded)
        # The answer acknowledges the question; no other frame is needed for that. If an
        # interrupt leaves the note, the question is acknowledged twice.
        now = _sync.monotonic()
        frame = waitable.fast_path.answer(question, payload, encoded, extracted_at=now)
        if frame is not None:
            tracker.take_first()
        return frame

    def _new_waitable_link(self, peer: Peer) -> _WaitableLink | None:
        link = peer.session.link
        lease = None if link is None else self._link_pool.read_lease(link)
        if link is None or lease is None:
            return None
        waitable_links = {
            old: waitable
            for old, waitable in self._waitable_links.items()
            if waitable.fast_path.is_current
        }
        waitable = waitable_links[peer] = _WaitableLink(
            self,
            FastPath(self._remote, peer, link, self._bodies),
            lease,
        )
        self._waitable_links = waitable_links
        return waitable

    def offer_link(self, last: Incoming | InboundRun, host: ThreadManager) -> None:
        """Let a thread wait at the link that brings its tasks their messages.

        These are many short commands, or single notifications. Long messages are left
        to the comm thread, which copies them out of the kernel while callbacks run.

        last: the latest message for one of these tasks.
        """
        if host.main:
            return
        if type(last) is InboundRun:
            count = len(last.lengths)
            if count < _MANY or last.lengths.total > count * _SHORT_MAX:
                return
            peer: Peer = last.source.mailbox.peer
        elif (
            isinstance(last, Incoming)
            and last.kind is Kind.NOTIFICATION
            and last._trace is None
            and last._size <= BODY_MAX
        ):
            peer = last._source.mailbox.peer
        else:
            return
        waitable = self._waitable_links.get(peer)
        if waitable is None or not waitable.fast_path.is_current:
            waitable = self._exchange.query(partial(self._new_waitable_link, peer))
        if waitable is not None:
            waitable.wanted = True
            host.link_wait = waitable

    # For a task thread that holds the read lease of a link.

    def receive(
        self, waitable: _WaitableLink, frames: Sequence[bytes], host: ThreadManager
    ) -> tuple[bool, bool, bool]:
        """Take frames from a link, under ``hold``.

        Return three flags. The first is True if a frame may have had a message for a
        local task, the second if such a message waits for `act`. The third is True if
        the comm thread should wait at the link instead.
        """
        delivered = waits = other = False
        link, given, bodies = waitable.link, self._given, self._bodies
        for frame in frames:
            # Earlier frames go first, and the bytes must be a frame.
            if not (given or self._rounds.links_reserved or link in self._midway):
                done = self._exchange.try_deliver_now(waitable.fast_path, frame, host)
                if done is not None:
                    delivered = True
                    if not done:
                        waits = True
                    continue
                if frame[:1] in bodies.takes and bodies.take(link, frame):
                    continue
            given.append((link, frame))
            other = other or frame[:1] != _ACK
        if not given:
            acks = waitable.fast_path.peer.acks
            if delivered and acks.is_urgent:
                self._rounds.request_flush()  # the comm thread may sleep for longer
            elif delivered and not acks.in_exchange:
                self._wake_soon()
            return delivered, waits, False
        if host.main:
            self._rounds.wake()
            return delivered, waits, other
        waitable.wanted = False
        self._run_urgent_part()
        return delivered or waitable.wanted, waits, other and not waitable.wanted

    def check_link(self, link: int) -> None:
        """Let the comm thread check the state of a link."""
        self._link_pool.mark_ready(link)
        self._rounds.wake()

    def abort_link(self, link: int) -> None:
        """Abort a link whose traffic is no longer known for certain."""
        self._link_pool.abort(link)
        self.check_link(link)

    def act(self, *, main: bool) -> None:
        """Do the pending actions; only one in a main thread, which may be
        interrupted."""
        if main:
            self._exchange.act(1)
            if self._exchange.unfinished:
                self._rounds.request_flush()
            self._wake_soon()
        else:
            self._exchange.act()


class _WaitableLink:
    """A link that a task thread may wait at.

    It implements `bus.process.thread_manager.WaitableLink`.

    fast_path: the accounting of the fast path of this link.
    link: its number.
    question: the last question sent on this link; None before the first.
    wanted: True if a thread was offered this link since the flag was cleared.
    """

    __slots__ = (
        "_driver",
        "_idle_waits",
        "_lease",
        "_session",
        "fast_path",
        "link",
        "question",
        "wanted",
    )

    def __init__(
        self, driver: FastPathDriver, fast_path: FastPath, lease: ReadLease
    ) -> None:
        self._driver: Final = driver
        self.fast_path: Final = fast_path
        self.link: Final = fast_path.link
        self._session: Final = fast_path.peer.session
        self._lease: Final = lease
        self._idle_waits: int = 0
        self.question: Incoming | None = None
        self.wanted: bool = False

    def take_lease(
        self, host: ThreadManager, frame: bytes | Batch | None = None
    ) -> bool:
        """Take the read lease, unless the comm thread keeps it.

        Return True if ``frame`` was sent in the same step; `ThreadManager.leased` says
        whether this thread has the lease.
        """
        driver = self._driver
        host.waits_next = False
        if host.leased is not None:
            host.return_lease()
        if type(frame) is not bytes or driver._unsent or driver._bodies.ended_at:
            frame = None  # others go first, or it goes in several parts
        if not self._lease.take(host.inbox, frame):
            return False
        host.leased = self
        return frame is not None

    def return_lease(self, host: ThreadManager) -> None:
        """Return the read lease to the comm thread, if ``host`` holds it."""
        self._lease.leave(host.inbox)

    def wait(self, host: ThreadManager, deadline: float | None) -> bool:
        """Wait for the link or the inbox; return False to wait for the inbox alone.

        On return, each received message is in a mailbox, in an inbox, or with the comm
        thread.
        """
        driver, lease = self._driver, self._lease
        # Not by `ThreadManager.leased`, which an interrupt at the end of `return_lease`
        # leaves as it was.
        if lease.holder is not host.inbox and self.link == self._session.link:
            self.take_lease(host)
        if lease.holder is not host.inbox:
            host.return_lease()
            return False
        sleeps = True
        try:
            if not host.main and driver._acknowledgement_tracker.due:
                with driver.hold:  # the messages that this thread's tasks have taken
                    driver._run_urgent_part()
                # That may have put a message into one of its mailboxes. The lease
                # itself checks the inbox before it sleeps.
                sleeps = not host.pending()
            missing: float = math.inf
            while True:
                if sleeps:
                    lease.sleep(deadline)
                with driver.hold:
                    try:
                        frames = lease.read()
                        if (
                            not frames
                            and 0 < lease.missing_bytes < missing
                            and not (host.main or host.pending() or _passed(deadline))
                        ):
                            # The rest of a long frame is on its way. If left to the
                            # comm thread, it would wake that thread once per part.
                            missing = lease.missing_bytes
                            continue
                        delivered, waits, other = driver.receive(self, frames, host)
                    except BaseException:
                        # Under ``hold``, since `read` returns the lease: else the comm
                        # thread could handle the next frames first, and the peer would
                        # not resend those that this thread had read.
                        driver.abort_link(self.link)
                        raise
                    if not frames:
                        lease.leave(host.inbox)
                    host.leased = None  # last: see `ThreadManager.return_lease`
                break
            if lease.ended:
                driver.check_link(self.link)
            if waits:
                driver.act(main=host.main)
        except BaseException:
            self._leave_rest(host)
            raise
        if delivered:
            self._idle_waits = 0
            return not other
        self._idle_waits += 1
        return not other and self._idle_waits < _IDLE_WAITS_MAX

    def lend(self, poller: Poller) -> WatchedLease | None:
        """Lend the read lease to an event loop, unless another thread has it."""
        if self.link != self._session.link:
            return None
        return self._lease.lend(poller)

    def read(self, lease: WatchedLease, host: ThreadManager) -> None:
        """Take the messages that have arrived, in an event loop with the read lease.

        They are then in a mailbox, in an inbox, or with the comm thread.
        """
        driver = self._driver
        try:
            with driver.hold:
                try:
                    frames = lease.read()
                    _, waits, other = driver.receive(self, frames, host)
                except BaseException:
                    driver.abort_link(self.link)  # as in `wait`
                    raise
                if other or lease.ended:
                    lease.leave()
            if lease.ended:
                driver.check_link(self.link)
            if waits:
                driver.act(main=host.main)
        except BaseException:
            self._leave_actions()
            raise

    def _leave_rest(self, host: ThreadManager) -> None:
        """Leave the link and the pending actions to the comm thread."""
        try:
            host.return_lease()
        finally:
            self._leave_actions()

    def _leave_actions(self) -> None:
        if self._driver._exchange.unfinished:
            self._driver._rounds.request_flush()


def _passed(deadline: float | None) -> bool:
    return deadline is not None and deadline <= _sync.monotonic()
