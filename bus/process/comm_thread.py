"""`CommThread`: the one thread of a process that communicates with other processes.

It serves all links and empties the relays (BUS-CHAN-2, BUS-RELAY-2). `RemoteManager`
makes the decisions, under the exchange's lock, like all decisions of the manager.

The thread sleeps and makes `Rounds` in turn. A task thread that waits at a link may
also use that link: see `FastPathDriver`. `Shutdown` is the end of the thread, and
`ProcessNetwork` the interface of the network that starts it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from bus.errors import HorizonError
from bus.kernel.remote_manager import RemoteManager
from bus.kernel.tasks.actions import (
    Action,
    Answer,
    Dial,
    HangUp,
    Post,
    Resume,
    Send,
    Vacate,
)
from bus.kernel.topology import Topology
from bus.model.message import Incoming
from bus.model.registration import Visibility
from bus.process.failures import InternalErrors, PeerLog
from bus.process.fast_path_driver import FastPathDriver
from bus.process.inbound_delivery import InboundDelivery
from bus.process.link_pool import LinkPool, LinkSetup
from bus.process.relay_outbox import RelayOutbox
from bus.process.rounds import Rounds
from bus.process.verdict import JoinState
from queuebroker import _sync
from queuebroker.errors import BrokerClosedError, QueueBrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.kernel.hooks import Watcher
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.kernel.wire import Identity
    from bus.model.config import BusConfig
    from bus.process.account import Account
    from bus.process.exchange import Exchange
    from bus.process.link_policy import LinkBroker, LinkPolicy
    from bus.process.link_poller import LinkPoller
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["CommThread", "ProcessNetwork", "Shutdown"]


class ProcessNetwork(Protocol):
    """The network of one process, or of several processes inside one."""

    def new_incarnation(self) -> int:
        """Return a number higher than that of any earlier incarnation (AMO-17)."""

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Connect a process to all others; return its comm thread."""

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Remove a process; called at its end, by its comm thread."""


class Shutdown:
    """The end of one comm thread; for that thread alone.

    The thread ends once no task is left and nothing is pending, or at a time limit.

    Args:
        exchange, remote, link_pool, rounds: the instances of this process.

    Attributes:
        until: the time limit; None before `begin`.
        then: called at the end.
    """

    __slots__ = ("_exchange", "_link_pool", "_remote", "_rounds", "then", "until")

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        link_pool: LinkPool,
        rounds: Rounds,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._link_pool: Final = link_pool
        self._rounds: Final = rounds
        self.until: float | None = None
        self.then: Callable[[], object] = list

    def begin(self, until: float, then: Callable[[], object]) -> None:
        """Set the time limit, and acknowledge all messages taken so far."""
        self.until, self.then = until, then
        self._exchange.decide(lambda: self._remote.acknowledge(_sync.monotonic()))

    def may_end(self) -> bool:
        """Return True if the thread may end; then close the rounds to other threads."""
        if self.until is None:
            return False
        with self._rounds.hold:
            self._rounds.closed = finished = self._is_finished()
            return finished

    def _is_finished(self) -> bool:
        if self.until is None or self._rounds.is_due():
            return False
        if self.until <= _sync.monotonic():
            return True  # though a full link may still hold frames (BUS-DEREG-12)
        return not self._link_pool.sending and self._exchange.query(self._is_quiet)

    def _is_quiet(self) -> bool:
        """Return True if no task is left and all messages are acknowledged."""
        if any(not entry.remote for entry in self._exchange.manager.table):
            return False
        return not any(
            peer.session.ack_at is not None
            or any(relay.queue or relay.unacked for relay in peer.all_relays())
            for peer in self._remote.topology.peers.values()
        )


_log: Final = logging.getLogger("bus")


class CommThread:
    """The links of one process and the thread that serves them.

    An instance is started once. Any thread may call its methods, unless their
    docstrings say otherwise. It is the `bus.process.comm.Comm` of its process.

    Args:
        exchange: the exchange of this process.
        me: the identity of this process. config: the configuration of the bus.
        policy: the rules of the network. poller: see `LinkPool`.
        listens, master: the addresses of this process, and of its machine's master.
        static: see `RemoteManager`.

    Attributes:
        remote, join_state: the remote manager, and the join state, of this process.
        audience, account: see `RelayOutbox`.
        rejected_peers: the number of peers of other machines that got no link.
        send_now, answer: as of `FastPathDriver`; called for each message that leaves.
    """

    def __init__(
        self,
        exchange: Exchange,
        me: Identity,
        *,
        config: BusConfig,
        policy: LinkPolicy,
        poller: LinkPoller,
        listens: str,
        master: str,
        static: tuple[str, ...] | None = None,
    ) -> None:
        self._exchange: Final = exchange
        self._policy: Final = policy
        horizons = (each.horizons for each in exchange.hooks if each.horizons)
        outbox = RelayOutbox(me, config, self.on_extracted)
        self._relay_outbox: Final = outbox
        self.audience: Final[Entry] = outbox.audience
        self.account: Final = outbox.account
        self._peer_log: Final = PeerLog()
        self._link_pool: Final = LinkPool(
            outbox.inbox,
            config,
            policy,
            poller=poller,
            peer_log=self._peer_log,
            on_aborted=self._on_link_aborted,
        )
        self.join_state: Final = JoinState(me, patient=policy.patient)
        self.remote: Final = RemoteManager(
            Topology(
                me,
                config=config,
                nonces=iter(policy.new_nonce, None),
                addresses=(listens,),
                outside=self._listen_outside,
                complain=self._peer_log.note,
                trace_sink=exchange.trace_sink,
                horizons=next(horizons, None),
            ),
            exchange.manager,
            host=outbox,
            master=(master,),
            static=static,
            features=(
                *exchange.remote_features,
                lambda remote: self._rounds.bodies.begin(remote.topology.send),
            ),
            relay_account=outbox.new_relay_account,
        )
        remote, link_pool = self.remote, self._link_pool
        self._link_setup: Final = LinkSetup(
            exchange, remote, link_pool, policy, self.join_state
        )
        setup, join_state = self._link_setup, self.join_state
        rounds = Rounds(exchange, remote, outbox, link_pool, setup, join_state)
        self._rounds: Final = rounds
        self._acknowledgement_tracker: Final = rounds.acknowledgement_tracker
        driver = FastPathDriver(exchange, remote, link_pool, rounds, outbox.account)
        self._fast_path_driver: Final = driver
        self.send_now: Final = driver.send_now
        self.answer: Final = driver.answer
        outbox.send_single = driver.send_now
        self._shutdown: Final = Shutdown(exchange, remote, link_pool, rounds)
        self._inbound_delivery: Final = InboundDelivery(
            messages_max=config.task_fifo_messages,
            bytes_max=config.task_fifo_bytes,
            horizons=remote.topology.horizons,
        )
        self.rejected_peers: int = 0
        # Called for each decision or message, so without a method in between.
        self.request_flush: Final = rounds.request_flush
        self.bodies: Final = rounds.bodies
        self.fail: Final = rounds.fail
        self.holds: Final = self._inbound_delivery.holds
        self._thread: _sync.Thread | None = None
        # Acquired once: by the thread, to serve, or by `prevent_start`.
        self._turn: Final = _sync.Lock()
        self._errors: Final = InternalErrors("the comm thread")
        # True from the begin of a round until its end without an error.
        self._broken: bool = False
        # True once the thread empties its inbox for the last time.
        self._ended: bool = False

    # Start and stop.

    def start(self, *brokers: LinkBroker) -> None:
        """Accept links at some brokers, and serve until `stop`."""
        self._exchange.comm = self
        for broker in brokers:
            self._link_setup.accept_links(broker)
        slaves = self._policy.slaves() if self.remote.topology.is_master else ()
        self._exchange.decide(lambda: self._begin(slaves))

        def run() -> None:
            if self._turn.acquire(False):
                self._run()

        self._thread = _sync.Thread(
            target=run, name=f"{brokers[0].name} comm", daemon=True
        )
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
        # In this order, as in `_run`. The helpers may have accepted links, at the other
        # ends of which nobody must wait for a silent process.
        self._ended = True
        self._run_late_requests()
        return True

    def _begin(self, slaves: Sequence[str]) -> list[Action]:
        """Announce the local tasks, and pass on the searches for their addressees.

        slaves: for a master, as returned by `LinkPolicy.slaves`.
        """
        now, manager = _sync.monotonic(), self._exchange.manager
        actions = self.remote.begin(now, slaves)
        task_announcer = self.remote.task_announcer
        for name in manager.parked.waiting():
            task_announcer.seek(name, now)
        for entry in manager.table:
            if entry.visibility is Visibility.PUBLIC:
                actions += task_announcer.on_registered(entry, now)
        return actions + self.remote.flush(now)

    def accept_links(self, broker: LinkBroker) -> None:
        """Accept links at one more broker."""

        def accept() -> None:
            try:
                self._link_setup.accept_links(broker)
            except RuntimeError as error:  # no thread is left, and the broker is closed
                self._peer_log.note(f"{broker.name} accepts no links: {error}")

        self._relay_outbox.ask(accept)
        # As in `decide`: after the end of the thread the broker is closed here.
        if self._ended:
            self._run_late_requests()

    def add_link(self, queue: MessageQueue) -> None:
        """Add a link that another process has made to this one."""
        self._link_setup.add(queue)

    def _listen_outside(self) -> tuple[str, ...]:
        """Return the addresses for other machines; begin to listen on first use."""
        [inside] = self.remote.topology.addresses
        try:
            broker, addresses = self._policy.listen_outside(inside)
        except (OSError, QueueBrokerError) as error:
            # Not logged here: a handler may need the lock that the caller holds.
            self._peer_log.note(f"cannot listen for other machines: {error}")
            return (inside,)
        if broker is not None:
            self.accept_links(broker)
        return addresses

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
        self._relay_outbox.ask(lambda: self._shutdown.begin(until, then))

    def join(self) -> None:
        """Wait until the thread has ended."""
        assert self._thread is not None
        self._thread.join()

    @property
    def watcher(self) -> Watcher | None:
        """Sees the frames of all links; None if no feature asks for them."""
        return self._rounds.watcher

    @watcher.setter
    def watcher(self, watcher: Watcher | None) -> None:
        # Under ``hold``, as the end of the comm thread: in either order the links of an
        # ended thread stay reserved.
        with self._rounds.hold:
            self._rounds.watcher = watcher
            self._rounds.links_reserved = watcher is not None or self._ended

    # For the exchange.

    def on_extracted(self, message: Incoming) -> None:
        """Note that a task took or dropped a message, local or remote."""
        if (
            message._receipt is not None  # from another process
            and self._acknowledgement_tracker.note(message)
        ):
            self._rounds.wake()
        if self.holds(message._to):
            self._resume_if_half_free(message._to, message._account)

    def on_run_progress(self, run: InboundRun) -> None:
        """Note that a task reads, or has read, from a run of another process."""
        if run.receipt is not None:
            tracker = self._acknowledgement_tracker
            if tracker.note_run(run) and not tracker.acknowledges_soon(run._to.host):
                self._rounds.wake()
        if self._inbound_delivery.holds(run._to):
            self._resume_if_half_free(run._to, run._account)

    def _resume_if_half_free(self, entry: Entry, account: Account) -> None:
        # Not for each message that the task takes: a resume would then deliver the
        # held-back messages one by one.
        if account.is_half_free:
            self._exchange.decide(lambda: [Resume(entry)])

    def on_room(self, entry: Entry) -> None:
        """Note that a task has room, or has left its host."""
        if self._inbound_delivery.holds(entry):
            self._exchange.decide(lambda: [Resume(entry)])

    def open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Open a relay for sending, first the messages parked for its name."""

        def opened() -> list[Action]:
            self._relay_outbox.open(entry, messages, self.remote)
            return self.remote.flush(_sync.monotonic())

        self._exchange.decide(opened)

    def _vacate(self, action: Vacate) -> None:
        """Hand back the messages left in a relay, then those posted to it since."""
        if action.done:
            return
        entry, final = action.entry, action.final
        unread = self._relay_outbox.take_unsent(entry, action.messages)
        now, exchange = _sync.monotonic(), self._exchange

        def emptied() -> list[Action]:
            todo = exchange._todo
            exchange.manager.on_emptied(entry, unread, now, todo, final=final)
            return []

        exchange.decide(emptied)
        action.done = True

    def do(self, action: Action) -> None:
        """Do an action to or from other processes; the exchange calls this in order."""
        match action:
            case Post(entry, messages):
                if (host := entry.host) is not None:
                    self._fast_path_driver.offer_link(messages[-1], host)
                self._inbound_delivery.deliver(entry, messages)
            case Resume(entry):
                self._inbound_delivery.resume(entry)
            case Answer():
                self._inbound_delivery.answer(action)
            case Vacate():
                self._relay_outbox.ask(lambda: self._vacate(action))
            case Send() | HangUp() | Dial():
                rounds = self._rounds
                rounds.link_actions.append(action)
                if not rounds.is_in_turn():
                    rounds.wake()
            case _:
                raise AssertionError(action)

    def on_cut_off(self, action: Action) -> None:
        """Handle an interrupt or an error in `do`, which may not have begun."""
        match action:
            case Send(link):
                # The frame may be lost. Over the next link it is sent again.
                self._fast_path_driver.abort_link(link)
            case Vacate():
                self.do(action)
            case HangUp() | Dial():  # both may be repeated
                self._rounds.link_actions.append(action)
                self._rounds.wake()

    def on_rejected(self, text: str) -> None:
        """Count and log a peer of another machine that got no link (BUS-SEC-9).

        For this thread alone.
        """
        self.rejected_peers += 1
        self._peer_log.note(text)
        self._rounds.wake_soon()

    def on_internal_error(self) -> None:
        """Settle the receipts of messages soon; for any thread."""
        self._rounds.settles = True
        self._rounds.wake_soon()

    def report(self, text: str) -> None:
        """Log an error as soon as this thread holds no lock."""
        self._peer_log.report(text)
        self._rounds.wake_soon()

    # The thread itself.

    def _run(self) -> None:
        self._relay_outbox.ident = _sync.get_ident()
        rounds, shutdown = self._rounds, self._shutdown
        ends = failed = False
        try:
            while not ends:
                try:
                    if failed:  # here: an error of this call, too, ends no thread
                        self.on_internal_error()
                    failed = False
                    ends = shutdown.may_end()
                    if not ends:
                        self._serve_once()
                except (HorizonError, BrokerClosedError):
                    raise
                except Exception as error:  # noqa: BLE001 # such as a lack of memory
                    failed = True
                    self._errors.on_error(error)
        except HorizonError as error:
            _log.error("this process leaves the bus: %s", error)
        except Exception:
            _log.exception("internal error of the bus: this process leaves it")
            raise
        finally:
            rounds.closed = True
            self._policy.on_end()
            # After any failure: other processes must not wait for a silent one.
            self._link_pool.close()
            with rounds.hold:
                self._ended = rounds.links_reserved = True
                rounds.bodies.close()
            self._policy.release_role()
            self._run_late_requests()
            shutdown.then()

    def _serve_once(self) -> None:
        """Sleep, and make a round.

        Raises:
            HorizonError: this process must leave the bus.
            BrokerClosedError: the driver of the links is closed.
            Exception: an internal error; the next call recovers from it.
        """
        rounds, errors = self._rounds, self._errors
        self._link_pool.wait(rounds.is_due, rounds.deadline(self._shutdown.until))
        with rounds.hold:
            if self._broken:
                rounds.recover()
            self._broken = True
            rounds.run()
            self._broken = False
        # Without ``hold``: a thread waiting for it may hold a lock that a log handler
        # needs.
        while rounds.errors:
            errors.note(rounds.errors.popleft())
            self.on_internal_error()
        self._peer_log.write(_sync.monotonic())
        errors.on_success()

    def _run_late_requests(self) -> None:
        """Run the requests that arrive at the end or later, in any thread.

        Links handed over by then are closed, and tasks that leave late are emptied.
        """
        _, requests = self._relay_outbox.take()
        for request in requests:
            request.run()

    def _on_link_aborted(self, number: int, why: str) -> None:
        link = self.remote.links.by_number.get(number)
        if link is not None:
            self._peer_log.note(f"the link with {link.peer_name} is aborted: {why}")
