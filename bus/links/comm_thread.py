"""`CommThread`: the one thread of a process that communicates with other processes.

It serves all links and empties the relays (BUS-CHAN-2, BUS-RELAY-2). `RemoteManager`
makes the decisions, under the exchange's lock, like all decisions of the manager.

In one round, the thread takes in the frames from the links and the messages posted by
tasks. The manager decides on all of them at once, and the thread then sends the
resulting frames. So messages that queue up together are sent together, and a single
message leaves at once (BUS-CHAN-6).

Any thread may make the decisions, but only one thread at a time touches the links,
usually this one. Actions on links wait in ``link_actions``, in the order of the
decisions. A task thread that waits at a link may also use that link: see
`FastPathDriver`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.address import Address
from bus.core.local.actions import (
    Action,
    Dial,
    HangUp,
    Post,
    Reply,
    Resume,
    Send,
    Vacate,
)
from bus.core.remote.remote_manager import RemoteManager
from bus.core.wire import pieces
from bus.links.acknowledgement_tracker import AcknowledgementTracker
from bus.links.fast_path_driver import FastPathDriver
from bus.links.frame_readers import FrameReaders
from bus.links.inbound_delivery import InboundDelivery
from bus.links.join_state import JoinState
from bus.links.link_pool import LinkPool
from bus.links.link_setup import LinkSetup
from bus.links.peer_log import PeerLog
from bus.links.relay_outbox import Posted, RelayOutbox, Said
from bus.registration import RegistrationId, Visibility
from bus.rights import UNRESTRICTED
from bus.threads.delivery import answer_of
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.config import BusConfig
    from bus.core.local.command_run import CommandRun
    from bus.core.local.routing_table import Entry
    from bus.core.peer.limits import Limits
    from bus.core.remote.frame_monitor import FrameMonitor
    from bus.core.wire import Identity
    from bus.links.frame_readers import Read
    from bus.links.link_poller import LinkPoller
    from bus.links.link_pool import LinkBroker
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.rights import Credentials
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import Request, ThreadManager
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["CommThread"]

_log: Final = logging.getLogger("bus")

# Maximum delay before overdue deadlines are handled.
_REVIEW_S: Final = 0.005


def _no_refusal(_: MessageQueue) -> None:
    """Accept every link."""


def _nobody_asked(_: MessageQueue) -> Credentials:
    """Grant every process all rights."""
    return UNRESTRICTED


def _no_claim() -> None:
    """Leave the role of master to other processes."""


class CommThread:
    """The links of one process and the thread that serves them.

    An instance is started once. Any thread may call its methods, unless their
    docstrings say otherwise. It is the `bus.threads.comm.Comm` of its process.

    Args:
        exchange: the exchange of this process.
        me: the identity of this process.
        config, limits: the configuration of the bus.
        nonce: returns numbers that distinguish rivals (AMO-17).
        listens: the address at which this process listens.
        master: the address of the master of its machine.
        poller, refusal: see `LinkPool`.
        credentials, claim: see `LinkSetup`. patient: see `JoinState`.
        ended: called when the thread no longer serves any link, for any reason.

    Attributes:
        join_state: the join state of this process.
        inbox, link_actions, links_reserved: see `bus.links.fast_path_driver.Rounds`.
    """

    def __init__(
        self,
        exchange: Exchange,
        me: Identity,
        *,
        config: BusConfig,
        limits: Limits,
        nonce: Callable[[], int],
        listens: str,
        master: str,
        poller: LinkPoller,
        refusal: Callable[[MessageQueue], str | None] = _no_refusal,
        credentials: Callable[[MessageQueue], Credentials] = _nobody_asked,
        claim: Callable[[], LinkBroker | None] = _no_claim,
        patient: bool = False,
        ended: Callable[[], object] = list,
    ) -> None:
        self._exchange: Final = exchange
        here = Address("audience", machine=me.machine, bus=me.bus)
        nobody = RegistrationId(me.machine, me.process, 0)
        self._relay_outbox: Final = RelayOutbox(
            here, nobody, config, self.on_extracted, self.command
        )
        self._peer_log: Final = PeerLog()
        self._link_pool: Final = LinkPool(
            self._relay_outbox.inbox,
            self._relay_outbox.ask,
            capacity=config.link_frames,
            timeout_s=limits.connect_timeout_s,
            poller=poller,
            refusal=refusal,
            backlog=(config.backlog_frames, config.backlog_bytes),
            given_up=self._given_up,
            turned_away=self._peer_log.note,
        )
        self._when_ended: Final = ended
        # Acquired once: by the thread, to serve, or by `prevent_start`.
        self._turn: Final = _sync.Lock()
        self.join_state: Final = JoinState(me, patient=patient)
        self._monitor: FrameMonitor | None = None
        self.links_reserved: bool = False
        self.remote: Final = RemoteManager(
            me,
            exchange.manager,
            host=self._relay_outbox,
            limits=limits,
            nonce=nonce,
            addresses=((listens,), (listens,)),
            master=(master,),
            relay_account=self._relay_outbox.new_relay_account,
            complain=self._peer_log.note,
            trace_sink=exchange.trace_sink,
        )
        self._link_setup: Final = LinkSetup(
            exchange,
            self.remote,
            self._link_pool,
            credentials=credentials,
            claim=claim,
            join_state=self.join_state,
        )
        self._readers: Final = FrameReaders(
            self._link_pool.cause, limits.message_bytes_max
        )
        self.audience: Final[Entry] = self._relay_outbox.audience
        self.account: Final[Account] = self._relay_outbox.account
        self._acknowledgement_tracker: Final = AcknowledgementTracker(
            max(1, config.window // 4), max(1, config.window_bytes // 4)
        )
        self.inbox: Final = self._relay_outbox.inbox
        self._fast_path_driver: Final = FastPathDriver(
            exchange,
            self.remote,
            self._link_pool,
            rounds=self,
            wake=self._wake,
            soon=self._soon,
            midway=self._readers.midway,
            acknowledgement_tracker=self._acknowledgement_tracker,
            run_urgent_part=self._run_urgent_part,
        )
        self._thread: _sync.Thread | None = None
        # The time limit set by `stop` and the call to make then; None before `stop`.
        self._end_at: float | None = None
        self._then: Callable[[], object] = list
        # True if another thread requested a flush; number of requests by this thread.
        self._round_requested: bool = False
        self._own_flush_requests: int = 0
        # The thread that runs `_run_urgent_part` in place of this one; the exception
        # raised there.
        self._substitute: int | None = None
        self._fault: Exception | None = None
        self.link_actions: Final[deque[Send | HangUp | Dial]] = deque()
        self._inbound_delivery: Final = InboundDelivery(
            messages_max=config.task_fifo_messages, bytes_max=config.task_fifo_bytes
        )
        # The manager's next deadline as of the last check; the time of the next check,
        # if this thread wakes before then.
        self._due_at: float | None = None
        self._review_at: float = 0.0
        self._review_s: Final = min(config.ack_delay_s / 2, _REVIEW_S)
        # True once no other thread may run `_run_urgent_part`; true once this thread
        # empties its inbox for the last time.
        self._left: bool = False
        self._ended: bool = False

    # Start and stop.

    def start(self, broker: LinkBroker, begin: Callable[[], list[Action]]) -> None:
        """Accept links at a broker, and serve until `stop`.

        begin: the first event, such as dialling the master.
        """
        self._exchange.comm = self
        self._link_setup.accept_links(broker)
        self._exchange.decide(lambda: self._begin(begin))

        def run() -> None:
            if self._turn.acquire(False):
                self._run()

        self._thread = _sync.Thread(target=run, name=f"{broker.name} comm", daemon=True)
        self._thread.start()

    def prevent_start(self) -> bool:
        """Keep the thread from serving after a failed start.

        Returns False if the thread serves already; it then ends by itself. A caller
        that is interrupted while it starts a thread cannot tell whether the thread
        runs.
        """
        self.stop(_sync.monotonic(), list)
        if not self._turn.acquire(False):
            return False
        self._link_pool.close()
        return True

    def _begin(self, begin: Callable[[], list[Action]]) -> list[Action]:
        """Announce the local tasks, and pass on their searches and subscriptions."""
        now, manager = _sync.monotonic(), self._exchange.manager
        actions = begin()
        for name in manager.parked.waiting():
            self.remote.seek(name, now)
        for entry in manager.table:
            if entry.visibility is Visibility.PUBLIC:
                actions += self.remote.on_registered(entry, now)
            for interest in manager.subscriptions.of(entry):
                self.remote.on_subscribed(interest)
            for watch in manager.watches.of(entry):
                self.remote.on_watched(watch)
        return actions + self.remote.flush(now)

    def accept_links(self, broker: LinkBroker) -> None:
        """Accept links at one more broker."""
        self._relay_outbox.ask(lambda: self._link_setup.accept_links(broker))

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Decide on an event in this thread, after everything posted before."""
        self._relay_outbox.ask(lambda: self._exchange.decide(event))
        # After the post: the comm thread sets this, then empties its inbox a last time.
        if self._ended:
            self._run_late_requests()

    def stop(self, until: float, then: Callable[[], object]) -> None:
        """End once no task is left and nothing is pending, or at the time ``until``.

        then: called at the end, in this thread.
        """

        def end() -> None:
            self._end_at, self._then = until, then
            self._exchange.decide(lambda: self.remote.acknowledge(_sync.monotonic()))

        self._relay_outbox.ask(end)

    def join(self) -> None:
        """Wait until the thread has ended."""
        assert self._thread is not None
        self._thread.join()

    @property
    def monitor(self) -> FrameMonitor | None:
        """The monitor of the frames of all links; None without listeners (OPEN-12)."""
        return self._monitor

    @monitor.setter
    def monitor(self, monitor: FrameMonitor | None) -> None:
        self._monitor = monitor
        self.links_reserved = monitor is not None or self._ended

    # For the exchange.

    def request_flush(self) -> None:
        """Request a flush of the latest decisions to the other processes."""
        if self._in_turn():
            self._own_flush_requests += 1  # handled in `_round`
        else:
            self._round_requested = True
            self._wake()

    def command(self, command: Incoming) -> bool:
        """Send a command at once; return False if it must be posted as usual."""
        return self._fast_path_driver.command(command)

    def answer(self, question: Incoming, payload: Payload, error: str | None) -> None:
        """Send the answer to a question from another process."""
        try:
            if error is not None or not self._fast_path_driver.answer(
                question, payload
            ):
                self._relay_outbox.inbox.push(Said(question, payload, error))
        finally:
            # Ends the task's send batches: no later command may overtake the answer.
            question._to.order = object()

    def on_extracted(self, message: Incoming) -> None:
        """Note that a task took or dropped a message, local or remote."""
        if message._receipt is not None:
            self._acknowledgement_tracker.note(message)
            watched = message._receipt.peer.session.in_exchange
            if self._acknowledgement_tracker.is_due(watched=watched):
                self._wake()
        self._resume_if_roomy(message._to, message._account)

    def on_run_reading(self, run: CommandRun) -> None:
        """Note that a task reads, or has read, from a run of another process."""
        if self._acknowledgement_tracker.note_run(run) and not self._tells_itself(
            run._to.host
        ):
            self._wake()
        self._resume_if_roomy(run._to, run._account)

    def _tells_itself(self, host: ThreadManager | None) -> bool:
        """Return True if the host thread or this one soon acknowledges by itself."""
        if host is None or host.main or host.link_wait is None:
            return False
        return self._acknowledgement_tracker.wakes_soon  # if it hangs in a callback

    def _resume_if_roomy(self, entry: Entry, account: Account) -> None:
        # Not for each message that the task takes: a resume would then deliver the
        # held-back messages one by one.
        if self._inbound_delivery.holds(entry) and account.roomy:
            self._exchange.decide(lambda: [Resume(entry)])

    def on_room(self, entry: Entry) -> None:
        """Note that a task has room, or has left its host."""
        if self._inbound_delivery.holds(entry):
            self._exchange.decide(lambda: [Resume(entry)])

    def holds(self, entry: Entry) -> bool:
        """Return True if messages are held back for a task that had no room."""
        return self._inbound_delivery.holds(entry)

    def open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Open a relay for sending, first the messages parked for its name."""

        def opened() -> list[Action]:
            if entry.host is self._relay_outbox:
                self.remote.open(entry, messages)
            else:
                # The relay was removed since the decision to open it: `_vacate` returns
                # these messages along with the rest of the relay.
                self._relay_outbox.keep_unopened(entry, messages)
            return self.remote.flush(_sync.monotonic())

        self._exchange.decide(opened)

    def do(self, action: Action) -> None:
        """Do an action to or from other processes; one action at a time."""
        match action:
            case Post(entry, messages):
                if (host := entry.host) is not None:
                    self._fast_path_driver.show(messages[-1], host)
                self._inbound_delivery.deliver(entry, messages)
            case Resume(entry):
                self._inbound_delivery.resume(entry)
            case Reply():
                self._inbound_delivery.answer(action.entry, answer_of(action))
            case Vacate(entry, messages, final):
                self._relay_outbox.ask(
                    lambda: self._vacate(entry, messages, final=final)
                )
            case Send() | HangUp() | Dial():
                self.link_actions.append(action)
                if not self._in_turn():
                    self._wake()
            case _:
                raise AssertionError(action)

    def report(self, text: str) -> None:
        """Log an error as soon as this thread holds no lock."""
        self._peer_log.report(text)
        self._soon()

    def _wake(self) -> None:
        # The caller first notes its reason, then checks whether the comm thread sleeps.
        # The comm thread first notes that it sleeps, then checks for a reason to wake.
        # So one of the two sees the other, without a lock.
        arrived = self._relay_outbox.inbox.arrived
        if arrived.asleep:
            with self._relay_outbox.inbox.lock:
                arrived.wake_one()

    # The thread itself.

    def _run(self) -> None:
        self._relay_outbox.ident = _sync.get_ident()
        try:
            while not self._may_end():
                self._link_pool.wait(self._due, self._deadline())
                with self._fast_path_driver.hold:
                    self._round()
                # Without ``hold``: a thread waiting for it may hold a lock that a log
                # handler needs.
                self._peer_log.write(_sync.monotonic())
        except Exception:
            _log.exception("internal error of the bus: this process leaves it")
            raise
        finally:
            self._left = True
            # After any failure: other processes must not wait for a silent one.
            self._link_pool.close()
            self._ended = self.links_reserved = True
            self._when_ended()
            self._run_late_requests()
            self._then()

    def _run_late_requests(self) -> None:
        """Run the requests that arrive at the end or later, in any thread.

        Links handed over by then are closed, and tasks that leave late are emptied.
        """
        _, requests = self._relay_outbox.take()
        for request in requests:
            request.run()

    def _due(self) -> bool:
        """Return True if there is work other than frames from links."""
        return bool(
            self._relay_outbox.inbox.items
            or self.link_actions
            or self._round_requested
            or self._acknowledgement_tracker.due
            or self._fast_path_driver.due
            or self._fault
        )

    def _soon(self) -> None:
        """Make sure that this thread wakes within ``ack_delay_s``."""
        if not self._acknowledgement_tracker.wakes_soon:
            self._round_requested = True
            self._wake()

    def _in_turn(self) -> bool:
        """Return True if the caller is this thread, or acts in its place."""
        return self._relay_outbox.is_owner() or self._substitute == _sync.get_ident()

    def _deadline(self) -> float | None:
        """Return the deadline of the next sleep.

        Also note in ``wakes_soon`` whether the thread then wakes soon enough to
        acknowledge. The manager's deadlines are scanned once per ``_review_s``,
        not for each of many messages. If this thread wakes before the next scan is due,
        it then sleeps until that scan at most.
        """
        now, acknowledgement_tracker = _sync.monotonic(), self._acknowledgement_tracker
        look_at = acknowledgement_tracker.check_at
        if now < self._review_at:
            acknowledgement_tracker.wakes_soon = self._end_at is None
            return _first(self._due_at, self._review_at, self._end_at, look_at)
        self._due_at = self._exchange.query(lambda: self._next_deadline(now))
        self._review_at = now + self._review_s
        return _first(self._due_at, self._end_at, look_at)

    def _next_deadline(self, now: float) -> float | None:
        parked = self._exchange.manager.parked.next_deadline()
        self._acknowledgement_tracker.wakes_soon = (
            self._end_at is None and self.remote.acks_due
        )
        return _first(self.remote.next_deadline(now), parked)

    def _may_end(self) -> bool:
        """Return True if the thread may end; no caller then has a frame to send."""
        if self._end_at is None:
            return False
        with self._fast_path_driver.hold:
            self._left = self._is_finished()
            return self._left

    def _is_finished(self) -> bool:
        if self._end_at is None or self._due():
            return False
        if self._end_at <= _sync.monotonic():
            return True  # though a full link may still hold frames (BUS-DEREG-12)
        return not self._link_pool.sending and self._exchange.query(self._quiet)

    def _quiet(self) -> bool:
        """Return True if no task is left and all messages are acknowledged."""
        if any(not entry.remote for entry in self._exchange.manager.table):
            return False
        return not any(
            peer.session.ack_at is not None
            or any(relay.queue or relay.unacked for relay in peer.all_relays())
            for peer in self.remote.topology.peers.values()
        )

    def _round(self) -> None:
        if self._fault is not None:
            raise self._fault
        # Before the notes of taken messages are collected: a task that takes a message
        # after that wakes this thread.
        self._round_requested = self._acknowledgement_tracker.wakes_soon = False
        frames = [*self._fast_path_driver.take(), *self._link_pool.take()]
        posted, requests = self._relay_outbox.take()
        now = _sync.monotonic()
        self._let_decide(frames, posted, requests, now)
        self._carry_out()
        self._link_pool.resume()
        self._relay_outbox.review()
        if not self.join_state.settled:
            self.join_state.check_answer(
                self.remote.links, stands=self.remote.has_master
            )

    def _run_urgent_part(self) -> None:
        """Do the urgent part of a round, in place of this thread.

        The caller handles the frames it has read and the messages taken since. The rest
        of the round is left to this thread.
        """
        if self._left or self._fault is not None:
            return
        self._substitute = _sync.get_ident()
        try:
            self._let_decide(self._fast_path_driver.take(), (), (), _sync.monotonic())
            self._send_first()  # a call: see `_sync.Lock`
            self._relay_outbox.review()
        except Exception as fault:  # noqa: BLE001 # raised again by that thread
            self._fault = fault
        finally:
            self._substitute = None
        if self._due() or self._link_pool.sending or not self.join_state.settled:
            self._wake()
        self._soon()  # for deadlines set just now

    def _send_first(self) -> None:
        while self.link_actions and type(self.link_actions[0]) is Send:
            self._carry_out(1)

    def _let_decide(
        self,
        frames: Iterable[tuple[int, bytes | None]],
        posted: Iterable[Posted],
        requests: Sequence[Request],
        now: float,
    ) -> None:
        """Let the manager decide on all events, and do the resulting actions."""
        came = [(number, self._readers.read(number, data)) for number, data in frames]
        own_requests = self._own_flush_requests
        self._exchange.decide(lambda: self._decide(came, posted, now))
        for request in requests:
            request.run()
        # The first flush request belongs to that decision. Any others belong to
        # decisions made during the actions, such as disconnecting a task; they are sent
        # at once, too.
        if requests or self._own_flush_requests > own_requests + 1:
            self._exchange.decide(lambda: self.remote.flush(now))

    def _decide(
        self,
        came: Iterable[tuple[int, Read]],
        posted: Iterable[Posted],
        now: float,
    ) -> list[Action]:
        """Let the manager decide on all events; see `RemoteManager`."""
        remote = self.remote
        actions: list[Action] = []
        monitor = self._monitor
        for number, read in came:
            if monitor is not None and read.frame is not None:
                monitor.on_received(number, read.frame)
            if read.lost:
                actions += remote.on_link_lost(
                    number, now, mid_io=read.mid_io, why=read.why
                )
            elif read.error is not None:
                actions += remote.on_malformed(number, read.error, now)
            else:
                actions += remote.receive(number, read.frame, now)
        if taken := self._acknowledgement_tracker.take(now):
            remote.on_extracted(taken, now)
        self._relay_outbox.forward(posted, remote)
        # ``_due_at`` is older than these events: a deadline that they set waits for the
        # next round. A substitute handles no deadline: only the comm thread scans the
        # deadlines again afterwards.
        late = self._due_at is not None and self._due_at <= now
        if late and self._relay_outbox.is_owner():
            actions += self._exchange.manager.expire(now)
            actions += remote.tick(now)
            self._review_at = 0.0  # the deadline that was due is handled
        return actions + remote.flush(now)

    def _vacate(
        self, entry: Entry, messages: Sequence[Incoming], *, final: bool
    ) -> None:
        """Hand back the messages left in a relay, then those posted to it since."""
        unread = [
            *self._relay_outbox.take_unopened(entry),
            *messages,
            *self._relay_outbox.take_strays(entry),
        ]
        now = _sync.monotonic()
        manager = self._exchange.manager
        self._exchange.decide(
            lambda: manager.on_emptied(entry, unread, now, final=final)
        )

    def _carry_out(self, most: float = math.inf) -> None:
        """Do up to ``most`` actions on links, in the order of the decisions."""
        monitor, done = self._monitor, 0
        while self.link_actions and done < most:
            done += 1
            match self.link_actions.popleft():
                case Send(link, frame):
                    if monitor is not None:
                        monitor.on_sent(link, frame)
                    for piece in pieces(frame):
                        self._link_pool.send(link, piece)
                case HangUp(link):
                    self._link_pool.hang_up(link)
                    self._readers.forget(link)
                case Dial() as dial:
                    self._link_setup.dial(dial)

    def _given_up(self, number: int, why: str) -> None:
        link = self.remote.links.by_number.get(number)
        if link is not None:
            self._peer_log.note(f"the link with {link.who} is aborted: {why}")


def _first(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)
