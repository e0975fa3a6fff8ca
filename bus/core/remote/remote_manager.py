"""`RemoteManager`: the decisions of one process about all other processes.

It performs no I/O. Events are calls: a link is made, a frame arrives, a link is lost,
time passes, a task of this process registers or deregisters. Each call returns the
`actions` to perform. Outgoing frames are collected until `flush` puts them on the
links, so that messages that queue up together are sent in one frame (BUS-CHAN-6).

The driver

1. holds one lock around each call, the same as for the `ProcessManager`;
2. performs the actions in order, after it has released the lock;
3. calls `flush` when no event is left, and `tick` when `next_deadline` has passed;
4. puts frames on a link in order, and reports the loss of a link after all frames that
   arrived on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.remote.control_frames import ControlFrames
from bus.core.remote.idle_links import IdleLinks
from bus.core.remote.idle_relays import IdleRelays
from bus.core.remote.inbound_messages import InboundMessages
from bus.core.remote.keep_alive import KeepAlive
from bus.core.remote.link_table import LinkTable
from bus.core.remote.name_registry import NameRegistry
from bus.core.remote.outbound_messages import OutboundMessages
from bus.core.remote.relays import Relays
from bus.core.remote.remote_subscriptions import RemoteSubscriptions
from bus.core.remote.resolver import Resolver
from bus.core.remote.topology import Topology
from bus.core.wire import (
    Ack,
    Batch,
    Bye,
    Error,
    FrameType,
    Hello,
    LinkKind,
    OpenStream,
    Ping,
    Pong,
    Reason,
    Refused,
    Role,
    Welcome,
)
from bus.errors import WireError
from bus.events import BusReason
from bus.registration import Visibility
from bus.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.core.local.actions import Action
    from bus.core.local.interests import Interest
    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import Trace, TraceSink
    from bus.core.peer.limits import Limits
    from bus.core.peer.peer import Peer
    from bus.core.remote.link import Link
    from bus.core.streams.receipts import Taken
    from bus.core.wire import Characteristics, Frame, Identity
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.registration import Key
    from bus.rights import Credentials

__all__ = ["RemoteManager"]

_WORDS_MAX: Final = 256  # characters of an error description
_REPEAT_S: Final = 0.25  # delay before subscriptions are sent again after a loss


class RemoteManager:
    """The remote manager: the decisions of one process about all other processes.

    Args:
        me: identity of this process; its role may change by `become_master`.
        manager: the manager of this process's own tasks, which calls this object from
          now on.
        host: the host of relays, which senders post to; relay_account: makes the
          account that these senders use.
        limits: bounds and times.
        nonce: returns a number that distinguishes rival streams (AMO-17).
        addresses: the addresses on which this process listens, for its own machine and
          for others.
        master: the addresses on which the master of its machine listens.
        complain: takes a line about a violation by another process. It only stores the
          line, since it is called under the lock.
        trace_sink: the trace sink, called under the lock, too; None if nothing is
          recorded.
    """

    def __init__(
        self,
        me: Identity,
        manager: ProcessManager,
        *,
        host: object,
        limits: Limits,
        nonce: Callable[[], int],
        addresses: tuple[tuple[str, ...], tuple[str, ...]],
        master: tuple[str, ...],
        relay_account: Callable[[Characteristics], object] = lambda _: None,
        complain: Callable[[str], object] = lambda _: None,
        trace_sink: TraceSink | None = None,
    ) -> None:
        self.topology: Final = Topology(
            me,
            limits=limits,
            nonce=nonce,
            addresses=addresses,
            complain=complain,
            trace_sink=trace_sink,
        )
        self.topology.lose = self.lose
        self.topology.part = self.part
        self.manager: Final = manager
        self.name_registry: Final = NameRegistry(self.topology, manager)
        self.relays: Final = Relays(self.topology, manager, host, relay_account)
        self.outbound_messages: Final = OutboundMessages(
            self.topology, manager, self.relays
        )
        self.inbound_messages: Final = InboundMessages(
            self.topology, self.relays, self.outbound_messages
        )
        self.resolver: Final = Resolver(
            self.topology, manager, self.name_registry, self.relays
        )
        self.idle_relays: Final = IdleRelays(self.topology, self.relays)
        self.remote_subscriptions: Final = RemoteSubscriptions(
            self.topology, manager, self.relays, self.idle_relays
        )
        self.links: Final = LinkTable(
            self.topology, self.relays, self.outbound_messages, master
        )
        self.idle_links: Final = IdleLinks(
            self.topology,
            self.relays,
            self.outbound_messages,
            self.remote_subscriptions,
            self.links,
        )
        self._control_frames: Final = ControlFrames(
            self.topology,
            name_registry=self.name_registry,
            relays=self.relays,
            outbound_messages=self.outbound_messages,
            inbound_messages=self.inbound_messages,
            resolver=self.resolver,
            remote_subscriptions=self.remote_subscriptions,
            idle_relays=self.idle_relays,
            idle_links=self.idle_links,
        )
        self.keep_alive: Final = KeepAlive(self.topology, self.links)
        self._repeat_at: float | None = None
        manager.remote = self

    # Calls from the process manager (`bus.core.local.remote.Remote`).

    def claim(self, name: str) -> list[Action]:
        """Claim a name for a task of this process; supersede a relay that holds it.

        Raises:
            NameTakenError: another process holds the name.
        """
        self.name_registry.check(name)
        present = self.manager.table.find(name)
        if present is not None:
            self.relays.supersede(present)
        return self._take_actions()

    def awaits_verdict(self, entry: Entry) -> bool:
        """Return True if the master has yet to confirm the name of a task (OPEN-3)."""
        return self.name_registry.pending_names.is_pending(entry)

    def on_named(self, entry: Entry) -> None:
        """End the search for a name that is now found."""
        self.resolver.on_named(entry)

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Announce a new public task of this process to the processes concerned."""
        self.name_registry.on_registered(task, now)
        self._introduce([task])
        self.resolver.on_registered(task, now)
        self.remote_subscriptions.on_registered(task, now)
        return self._take_actions()

    def _introduce(self, tasks: Iterable[Entry]) -> None:
        """Introduce public tasks to the master now, if ``eager_relays`` is set."""
        master = self.topology.master()
        if master is not None and self.topology.limits.eager_relays:
            for task in tasks:
                master.announce(self.relays.with_number(task), task.relay)

    def on_departure(self, task: Entry, *, final: bool) -> list[Action]:
        """Announce that a task of this process can no longer be found."""
        if task.visibility is Visibility.PUBLIC or task.relay:
            self.name_registry.on_departure(task, final=final)
        return self._take_actions()

    def on_emptied(self, entry: Entry, now: float, *, final: bool) -> list[Action]:
        """Announce the last message that a departed task took; search for its name.

        The task's mailbox is now empty, and its unread commands are parked.
        """
        if not entry.remote:
            self.idle_relays.on_departure(entry)  # while relays list it as a user
            self.outbound_messages.on_departure(entry, final=final)
            self.resolver.on_departure(entry, now)
        if self.manager.table.find(entry.name) is None:
            self.seek(entry.name, now)
        return self._take_actions()

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for."""
        self.resolver.seek(name, now)

    def review(self, now: float) -> None:
        """End the searches that no message waits for."""
        self.resolver.review(now)

    def on_subscribed(self, interest: Interest) -> None:
        """Extend a subscription to the tasks of other processes."""
        self.remote_subscriptions.on_subscribed(interest)

    def confirm(
        self, interest: Interest, settled: Callable[[], object]
    ) -> list[Action]:
        """Call a function once all processes have received a subscription."""
        self.remote_subscriptions.confirm(interest, settled)
        return self._take_actions()

    def on_unsubscribed(self, interest: Interest) -> None:
        """End a subscription to the tasks of other processes."""
        self.remote_subscriptions.on_unsubscribed(interest)

    def on_watched(self, interest: Interest) -> None:
        """Extend a watch to the tasks of other processes."""
        self.remote_subscriptions.on_subscribed(interest, presence=True)

    def on_unwatched(self, interest: Interest) -> None:
        """End a watch of the tasks of other processes."""
        self.remote_subscriptions.on_unsubscribed(interest, presence=True)

    # Messages of tasks of this process.

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Send commands to a relay; see `OutboundMessages.post`."""
        self.outbound_messages.post(entry, messages)

    def open(self, entry: Entry, messages: Iterable[Incoming]) -> None:
        """Let a relay send, with the messages parked for its name first."""
        self.outbound_messages.open(entry, messages)

    def answer(
        self, question: Incoming, payload: Payload = None, *, error: str | None = None
    ) -> bool:
        """Answer a message that came over a link; False if its relay was released."""
        return self.outbound_messages.answer(question, payload=payload, error=error)

    def notify(
        self,
        source: Entry,
        payload: Payload,
        question: int = 0,
        trace: Trace | None = None,
        gap: int = 0,
        *,
        heard: bool = True,
    ) -> None:
        """Send a notification to all processes that have a subscriber to its sender.

        heard: True if a subscriber in this process has received it.
        """
        hearers = self.remote_subscriptions.subscribed_peers(source)
        if not (hearers or heard):
            source.unheard += 1
        self.outbound_messages.notify(hearers, source, payload, question, trace, gap)

    def post_alike(
        self,
        entry: Entry,
        source: Entry,
        payloads: Sequence[bytes],
        size: int,
        deadline: float | None,
    ) -> None:
        """Send commands to a relay that differ only in their bytes."""
        self.outbound_messages.post_alike(entry, source, payloads, size, deadline)

    def on_extracted(self, messages: Iterable[Taken], now: float) -> None:
        """Note that tasks took, or dropped, messages that came over links."""
        self.inbound_messages.on_extracted(messages, now)

    # Links.

    @property
    def has_master(self) -> bool:
        """True if this process is master, or has an open link with its master."""
        if self.topology.is_master:
            return True
        master = self.topology.master()
        return master is not None and master.session.ready

    def dial_master(self) -> list[Action]:
        """Dial the master of this machine, and retry until there is one."""
        self.links.dial_machine(self.topology.me.machine)
        return self._take_actions()

    def on_machine_found(
        self, machine: str, addresses: tuple[str, ...]
    ) -> list[Action]:
        """Record the addresses of another machine's master; the lower machine dials."""
        self.links.on_machine_found(machine, addresses)
        return self._take_actions()

    def become_master(self) -> list[Action]:
        """Become master, since the previous one is lost (OPEN-1)."""
        for peer in self.topology.joined():
            self.lose(peer, peer.since)
        self.topology.role = Role.MASTER
        self.links.redial.clear()
        self.name_registry.become_master()
        return self._take_actions()

    def on_link_dialled(
        self,
        number: int,
        kind: LinkKind,
        key: Key,
        now: float,
        credentials: Credentials = UNRESTRICTED,
    ) -> list[Action]:
        """Take over a link that a `Dial` has made, and send HELLO.

        credentials: those of the process at the other end.
        """
        self.links.on_dialled(number, kind, key, now, credentials)
        return self._take_actions()

    def on_link_accepted(
        self, number: int, now: float, credentials: Credentials = UNRESTRICTED
    ) -> list[Action]:
        """Take over a link that another process has dialled."""
        self.links.on_accepted(number, now, credentials)
        return self._take_actions()

    def on_dial_failed(self, kind: LinkKind, key: Key, now: float) -> list[Action]:
        """Handle a failed dial; see `LinkTable.on_dial_failed`."""
        self.links.on_dial_failed(kind, key, now)
        return self._take_actions()

    def on_link_lost(
        self, number: int, now: float, *, mid_io: bool = False, why: str = ""
    ) -> list[Action]:
        """Handle the loss of a link, after all frames that arrived on it.

        mid_io: True if the peer sent no BYE: its process died.
        why: the error that the peer reported in its last frame; then the peer still
          lives.
        """
        link = self.links.by_number.pop(number, None)
        if link is not None:
            parted = BusReason.DIED if mid_io else BusReason.LEFT
            if why:
                parted = BusReason.GIVEN_UP
                self.topology.complain(
                    f"the link with {link.who} was closed by the peer: {why}"
                )
            self.links.on_link_lost(link, now, parted)
        return self._take_actions()

    def receive(self, number: int, frame: Frame | None, now: float) -> list[Action]:
        """Handle a frame; None stands for a frame to skip (BUS-WIRE-3)."""
        link = self.links.by_number.get(number)
        if link is None or frame is None:
            return []
        if link.peer is not None:
            self.keep_alive.on_frame(link.peer, now)
        try:
            self._receive(link, frame, now)
        except WireError as error:
            self._on_violation(link, error, now)
        return self._take_actions()

    def on_malformed(self, number: int, error: WireError, now: float) -> list[Action]:
        """Close a link on which bytes arrived that are no frame (BUS-WIRE-4)."""
        link = self.links.by_number.get(number)
        if link is not None:
            self._on_violation(link, error, now)
        return self._take_actions()

    def _on_violation(self, link: Link, error: WireError, now: float) -> None:
        words = Error(reason=Reason.WIRE, text=str(error)[:_WORDS_MAX])
        self.topology.complain(f"the link with {link.who} is closed: {error}")
        self.topology.send(link.id, words)
        self.links.drop(link, now)

    def flush(self, now: float) -> list[Action]:
        """Put collected frames on the links; close links whose peer does not read."""
        silent: list[tuple[Link, str]] = []
        most = self.topology.limits.backlog_frames
        for peer in self.topology.peers.values():
            link = peer.session.link
            if link is not None:
                if peer.audience.queue:
                    # The commands that notifications waited for may have been sent
                    # (BUS-MSG-15).
                    self.outbound_messages.pump(peer)
                for frame in peer.session.flush(now):
                    self.topology.send(link, frame)
                if peer.session.ready and peer.session.backlog > most:
                    words = f"more than {most} frames are not acknowledged"
                    silent.append((self.links.by_number[link], words))
                elif peer.flooded:
                    peer.flooded = False  # after a reconnect the peer may read
                    words = "too many answers are queued"
                    silent.append((self.links.by_number[link], words))
        for each, words in silent:
            self._on_violation(each, WireError(words), now)
        return self._take_actions()

    # Time.

    def tick(self, now: float) -> list[Action]:
        """Handle expired timers: drop, close and retry."""
        self.inbound_messages.expire(now)
        self.outbound_messages.expire(now)
        self.resolver.review(now)
        for link in list(self.links.by_number.values()):
            late_at = self.links.late_at(link)
            if late_at is not None and late_at <= now:
                self.links.drop(link, now)
        for peer in list(self.topology.peers.values()):
            if peer.session.link is None and self._lost_at(peer) <= now:
                self.lose(peer, now)
            elif self.idle_links.is_due(peer, now):
                self.idle_links.ask(peer)
        for machine, at in list(self.links.redial.items()):
            if at <= now:
                del self.links.redial[machine]
                self.links.dial_machine(machine)
        if self._repeat_at is not None and self._repeat_at <= now:
            self._repeat_at = None
            self.remote_subscriptions.repeat()
        self.keep_alive.tick(now)
        self.idle_relays.tick(now)
        self.name_registry.tick(now)
        self.remote_subscriptions.tick(now)
        self.idle_links.review(now)
        return self._take_actions()

    def next_deadline(self, now: float) -> float | None:
        """Return when `tick` has work to do; None for never."""
        self.idle_links.review(now)
        self.idle_relays.review(now)
        self.name_registry.review(now)
        self.remote_subscriptions.review(now)
        times = [
            self._repeat_at,
            self.name_registry.next_deadline(),
            self.remote_subscriptions.next_deadline(),
            self.idle_relays.next_deadline(),
            self.resolver.next_deadline(),
            self.inbound_messages.next_deadline(),
            self.keep_alive.next_deadline(),
            *self.links.redial.values(),
            *map(self.links.late_at, self.links.by_number.values()),
        ]
        for peer in self.topology.peers.values():
            session = peer.session
            times.append(session.next_ack(now))
            if session.link is None:
                times.append(self._lost_at(peer))
            elif peer.idle_since is not None:
                times.append(self.idle_links.due_at(peer))
            for relay in peer.relays.values():
                if relay.queue or relay.asked:
                    times.append(relay.next_deadline())
                elif relay.provisional:
                    times.append(self.relays.forgotten_at(relay))
        return min([at for at in times if at is not None], default=None)

    def acknowledge(self, now: float) -> list[Action]:
        """Send due and later acknowledgements now; this process is about to stop."""
        for peer in self.topology.peers.values():
            if peer.session.ack_at is not None:
                peer.session.repeat_ack()
        return self.flush(now)

    @property
    def acks_due(self) -> bool:
        """True if `next_deadline` is soon, since an acknowledgement is pending."""
        return any(peer.session.awaits_ack for peer in self.topology.peers.values())

    def _lost_at(self, peer: Peer) -> float:
        limits = self.topology.limits
        wait = limits.relink_timeout_s if peer.bound else limits.connect_timeout_s
        return peer.since + wait

    # Frames.

    def _receive(self, link: Link, frame: Frame, now: float) -> None:
        peer = link.peer
        if peer is not None and peer.session.link != link.id:
            return  # the peer resends on the link in use
        kind = FrameType.MSG if isinstance(frame, Batch) else frame.type
        link.step(kind)
        match frame:
            case Hello():
                self.links.on_hello(link, frame, now)
                return
            case Welcome():
                self.links.identify(link, frame, now)
                return
            case Refused():
                self.links.on_refused(link, frame, now)
                return
            case OpenStream():
                self._on_open_stream(link, frame, now)
                return
        assert peer is not None
        match frame:
            case Batch():
                self.inbound_messages.on_batch(peer, frame, now)
                self.outbound_messages.on_ack_in(peer, frame)
            case Ack():
                self.outbound_messages.on_ack(peer, frame)
            case Ping():
                peer.session.send_link_frame(Pong(number=frame.number))
            case Pong():
                self.name_registry.on_pong(peer, frame.number)
                self.remote_subscriptions.on_pong(peer, frame.number)
            case Error(reason=Reason.WIRE):
                pass  # concerns the link alone, so not counted
            case Bye():
                self.idle_links.on_bye(link, peer, now)
            case _:
                peer.session.count_control()
                self._control_frames.handle(peer, frame, now)

    def _take_actions(self) -> list[Action]:
        actions, self.topology.todo = self.topology.todo, []
        return actions

    # Links, from their first frame to their end.

    def _on_open_stream(self, link: Link, frame: OpenStream, now: float) -> None:
        peer = link.peer
        assert peer is not None
        session = peer.session
        if frame.incarnation != self.topology.me.incarnation:
            raise WireError(f"OPEN_STREAM is for incarnation {frame.incarnation}")
        if session.their_epoch is not None and frame.epoch > session.their_epoch:
            # The peer has declared this process lost and dropped its state; this
            # process does the same.
            if peer.joined:
                self._lose_tasks(peer)
            self._forget(peer, now)
            session.reset()
            assert link.identity is not None
            self.links.on_process_up(peer, link.identity)
        self.inbound_messages.on_link_open(peer, frame)
        self.remote_subscriptions.on_link_open(peer)
        self.outbound_messages.pump(peer)
        if link.kind is LinkKind.SIGNALLING and not peer.joined:
            self._succeed(peer, now)
            peer.joined = True
            self.name_registry.on_joined(peer)
            self._introduce(self.name_registry.own())
            self.resolver.on_joined(peer)
            self.remote_subscriptions.on_joined(peer)
        self.name_registry.on_link_open(peer)

    def _succeed(self, peer: Peer, now: float) -> None:
        """Drop the previous master of a machine once another process is its master."""
        slave = self.topology.is_master and peer.machine == self.topology.me.machine
        for other in self.topology.joined():
            if other.machine == peer.machine and not slave:
                self.lose(other, now)

    # Processes.

    def lose(self, peer: Peer, now: float) -> None:
        """Declare a process lost: a later process of its name is another peer."""
        # If there was no link so far, only the master knows whether the process lives.
        if peer.bound and self._lose_tasks(peer):
            self._repeat_at = now + _REPEAT_S
        self.part(peer, now)

    def _lose_tasks(self, peer: Peer) -> bool:
        """Report the departure of a lost process's tasks; return whether it had any."""
        gone = self.manager.remote_tasks.on_process_lost(
            peer.key, peer.session.incarnation
        )
        self.topology.todo += gone
        return bool(gone)

    def part(self, peer: Peer, now: float) -> None:
        """Drop a process that is lost, or whose link is idle.

        If its link is idle, the tasks that the master has announced stay known.
        """
        link = self.links.by_number.get(peer.session.link or 0)
        if link is not None:
            self.links.hang_up(link)
        master = peer.joined
        self._forget(peer, now)
        self.topology.peers.pop(peer.key, None)
        if master and not self.topology.is_master:
            self.links.schedule_redial(peer.machine, now)

    def _forget(self, peer: Peer, now: float) -> None:
        if peer.joined:
            self.name_registry.on_process_lost(peer)
        self.resolver.on_process_lost(peer)
        self.remote_subscriptions.on_process_lost(peer, now)
        heard = any(map(self.relays.audience, peer.relays.values()))
        self.inbound_messages.on_process_lost(peer, now)
        self.outbound_messages.lose(peer)
        self.links.on_process_down(peer)
        if heard:
            self._repeat_at = now + _REPEAT_S
