"""`RemoteManager`: the decisions of one process about all other processes.

It performs no I/O. Events are calls: a link is made, a frame arrives, a link is lost,
time passes, a task of this process registers or deregisters. Each call returns the
`actions` to perform. Outgoing frames are collected until `flush` puts them on the
links, so that messages that queue up together are sent in one frame (BUS-CHAN-6).

The driver

1. holds one lock around each call, the same as for the `ProcessManager`;
2. performs the actions in order, after it has released the lock;
3. calls `tick` when an alarm of ``topology.timers`` is due, and `flush` after that and
   when no event is left;
4. puts frames on a link in order, and reports the loss of a link after all frames that
   arrived on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.errors import WireError
from bus.kernel import constants, wire
from bus.kernel.dispatch import ControlFrames
from bus.kernel.hooks import Hooks, Row
from bus.kernel.links.idle import IdleLinks, IdleRelays
from bus.kernel.links.keep_alive import KeepAlive
from bus.kernel.links.link_table import LinkTable
from bus.kernel.links.master_dialler import MasterDialler
from bus.kernel.messages.inbound_messages import InboundMessages
from bus.kernel.messages.outbound_messages import OutboundMessages, UndeliveredMessages
from bus.kernel.name_registry import NameRegistry
from bus.kernel.process_loss import ProcessLoss
from bus.kernel.relays import Relays
from bus.kernel.searches.resolver import Resolver
from bus.kernel.task_announcer import TaskAnnouncer
from bus.kernel.wire import LinkKind, Reason, Role
from bus.model.error_text import error_text_of
from bus.model.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.kernel.links.link import Link
    from bus.kernel.links.master_dialler import DialFailure
    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.kernel.trace import Trace
    from bus.kernel.wire import Characteristics, Frame
    from bus.model.payload import Payload
    from bus.model.registration import Key
    from bus.model.rights import Credentials

__all__ = ["RemoteManager"]

# Parked messages whose deadlines are so close, in seconds, expire together; usually the
# `ParkedExpiry` is first.
_TOGETHER_S: Final = 0.005


class RemoteManager:
    """The remote manager: the decisions of one process about all other processes.

    Its parts share one `Topology`, and append their actions to ``topology.todo``.

    Args:
        topology: this process, and its peers.
        manager: of this process's own tasks; reports to `TaskAnnouncer` from `begin`
          on. Before that, the process is alone.
        host: the host of relays, which senders post to; relay_account: makes the
          account that these senders use.
        master: the addresses on which the master of its machine listens.
        static: known addresses of the masters of other machines; None if it links with
          no other machine.
        features: `begin` calls each with this manager; each returns its hooks.
    """

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        *,
        host: object,
        master: tuple[str, ...],
        static: tuple[str, ...] | None = None,
        features: Iterable[Callable[[RemoteManager], Hooks]] = (),
        relay_account: Callable[[Characteristics], object] = lambda _: None,
    ) -> None:
        self.topology: Final = topology
        self.manager: Final = manager
        self.static: Final = static
        self._features: Final = features
        hooks = Hooks()  # its parts share it; `begin` fills it
        self._hooks: Final = hooks
        self.name_registry: Final = NameRegistry(topology, manager)
        self.relays: Final = Relays(topology, manager, host, relay_account)
        self.outbound_messages: Final = OutboundMessages(topology, manager, self.relays)
        self._undelivered_messages: Final = UndeliveredMessages(
            topology, manager, self.relays
        )
        self.inbound_messages: Final = InboundMessages(
            topology, self.relays, self.outbound_messages
        )
        self.resolver: Final = Resolver(
            topology, manager, self.name_registry, self.relays
        )
        self.idle_relays: Final = IdleRelays(topology, self.relays)
        self.links: Final = LinkTable(
            topology,
            self.relays,
            self._undelivered_messages,
            MasterDialler(topology, master),
        )
        self.idle_links: Final = IdleLinks(
            topology, self.relays, self.outbound_messages, hooks
        )
        self.keep_alive: Final = KeepAlive(topology, self.links)
        self.task_announcer: Final = TaskAnnouncer(
            topology,
            manager,
            self.name_registry,
            self.relays,
            self.outbound_messages,
            self.resolver,
            self.idle_relays,
            hooks,
        )
        self._process_loss: Final = ProcessLoss(
            topology,
            hooks,
            self.name_registry,
            self._undelivered_messages,
            self.inbound_messages,
            self.resolver,
            self.links,
        )
        self.control_frames: Final = ControlFrames(
            *(topology, self.name_registry, self.relays, self.resolver),
            *(hooks, self.idle_links),
        )
        self._parked_alarm: Final = topology.timers.alarm(self._expire_parked)
        manager.parked.alarm = self._parked_alarm
        topology.ack_alarm = topology.timers.alarm(self._check_acks)
        self._rows: Final = {row.kind: row for row in self._table()}
        # An attribute, so that a notification pays for no further call.
        self.subscribed_peers: Callable[[Entry], list[Peer]] = _no_peers

    # Messages of tasks of this process.

    def notify(
        self,
        source: Entry,
        payload: Payload,
        question: int = 0,
        trace: Trace | None = None,
        gap: int = 0,
        *,
        delivered: bool = True,
    ) -> None:
        """Send a notification to all processes that have a subscriber to its sender.

        delivered: True if a subscriber in this process has received it.
        """
        peers = self.subscribed_peers(source)
        if not (peers or delivered):
            source.no_subscriber += 1
        self.outbound_messages.notify(peers, source, payload, question, trace, gap)

    def notify_alike(
        self, source: Entry, payloads: Sequence[bytes], size: int, gap: int
    ) -> None:
        """Send notifications that differ only in their bytes; see `notify`.

        No subscriber in this process has received them. size: their total length.
        """
        peers = self.subscribed_peers(source)
        if not peers:
            source.no_subscriber += len(payloads)
        self.outbound_messages.notify_alike(peers, source, payloads, size, gap)

    # Links.

    def begin(self, now: float, others: Iterable[str] = ()) -> list[Action]:
        """Dial the master of this machine or, as master, those of other machines.

        Dials are repeated until there is a link. The features begin first.

        now: the time, in seconds.
        others: for a master, as for `become_master`.
        """
        for feature in self._features:
            # Here, under the lock: tasks of other buses may use this one already.
            self.add_hooks(feature(self))
        # Not before: no feature would record where a departing task goes on.
        self.manager.remote = self.task_announcer
        self._parked_alarm.by(self.manager.parked.next_deadline())
        self.name_registry.begin(now, others)
        self.links.dialler.dial()
        self.links.masters.begin(now)
        return self.topology.take_actions()

    def add_hooks(self, hooks: Hooks) -> None:
        """Call a feature from now on."""
        self._hooks.add(hooks)
        self._rows.update((row.kind, row) for row in hooks.frames)
        for peers in hooks.peers:
            self.subscribed_peers = peers

    def become_master(self, now: float, others: Iterable[str]) -> list[Action]:
        """Become master, since the previous one is lost (OPEN-1).

        others: the addresses of the other processes of this machine; this one grants no
          name until they have announced theirs, or for a second at most (OPEN-3).
        """
        for peer in self.topology.joined():
            self.topology.lose(peer, now)
        self.topology.role = Role.MASTER
        for on_master in self._hooks.on_master:
            on_master(now)
        self.name_registry.become_master(now, others)
        self.links.masters.begin(now)
        return self.topology.take_actions()

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
        return self.topology.take_actions()

    def on_link_accepted(
        self, number: int, now: float, credentials: Credentials = UNRESTRICTED
    ) -> list[Action]:
        """Take over a link that another process has dialled."""
        self.links.on_accepted(number, now, credentials)
        return self.topology.take_actions()

    def on_dial_failed(
        self, kind: LinkKind, key: Key, now: float, failure: DialFailure | None = None
    ) -> list[Action]:
        """Handle a failed dial; see `LinkTable.on_dial_failed`."""
        self.links.on_dial_failed(kind, key, now, failure)
        return self.topology.take_actions()

    def on_link_lost(
        self, number: int, now: float, *, mid_io: bool = False, why: str = ""
    ) -> list[Action]:
        """Handle the loss of a link, after all frames that arrived on it.

        mid_io: True if the peer sent no BYE: its process died.
        why: the error that the peer reported in its last frame; then the peer still
          lives.
        """
        self.links.on_link_lost(number, now, mid_io=mid_io, why=why)
        return self.topology.take_actions()

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
            self.links.on_violation(link, error, now)
        return self.topology.take_actions()

    def on_malformed(self, number: int, error: WireError, now: float) -> list[Action]:
        """Close a link on which bytes arrived that are no frame (BUS-WIRE-4)."""
        link = self.links.by_number.get(number)
        if link is not None:
            self.links.on_violation(link, error, now)
        return self.topology.take_actions()

    def on_internal_error(
        self, number: int, error: Exception, now: float
    ) -> list[Action]:
        """Close a link after an error of this process in the handling of its frames.

        The peer resends the messages that are not acknowledged, over the next link.
        """
        link = self.links.by_number.get(number)
        if link is not None:
            why = f"its own process failed: {error_text_of(error)}"
            self.links.on_violation(link, WireError(why), now)
        self.resolver.own.restart(now)
        return self.topology.take_actions()

    def flush(self, now: float) -> list[Action]:
        """Put collected frames on the links; close links whose peer does not read."""
        silent: list[tuple[Link, str]] = []
        most = constants.BACKLOG_FRAMES
        for peer in self.topology.peers.values():
            link = peer.session.link
            if link is not None:
                if peer.audience.queue:
                    # The commands that these waited for may be sent (BUS-MSG-15).
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
            self.links.on_violation(each, WireError(words), now)
        return self.topology.take_actions()

    # Time.

    def tick(self, now: float) -> list[Action]:
        """Handle expired timers: drop, close and retry. Costs little if none is."""
        self.topology.timers.run(now)
        return self.topology.take_actions()

    def _expire_parked(self, now: float) -> float | None:
        """Fail the parked messages that expired; return when the next ones do."""
        self.manager.expire(now, self.topology.todo)
        deadline = self.manager.parked.next_deadline()
        return None if deadline is None else max(deadline, now + _TOGETHER_S)

    def _check_acks(self, now: float) -> float | None:
        """Return when to check again whether acknowledgements are due.

        The `flush` after this tick sends those that are due now.
        """
        checks = [
            peer.acks.next_check(now, ready=peer.session.ready)
            for peer in self.topology.peers.values()
        ]
        return min([at for at in checks if at is not None and at > now], default=None)

    def acknowledge(self, now: float) -> list[Action]:
        """Send due and later acknowledgements now; this process is about to stop."""
        for peer in self.topology.peers.values():
            if peer.session.ack_at is not None:
                peer.acks.repeat()
        return self.flush(now)

    # Frames.

    def _table(self) -> tuple[Row[Any], ...]:
        """Return the handlers of all types of frames, and of reasons of errors."""
        links, names = self.links, self.name_registry
        resolver, frames = self.resolver, self.control_frames
        return (
            # The link.
            Row(wire.Hello, links.on_hello, of_link=True),
            Row(wire.Welcome, links.on_welcome, of_link=True),
            Row(wire.Refused, links.on_refused, of_link=True),
            Row(wire.OpenStream, self._on_open_stream, of_link=True),
            Row(wire.Bye, self.idle_links.on_bye, of_link=True),
            Row(wire.Ping, names.on_ping, counted=False),
            Row(wire.Pong, self._on_pong, counted=False),
            # Messages.
            Row(wire.Batch, self._on_batch, counted=False),
            Row(wire.Ack, self.outbound_messages.on_ack, counted=False),
            Row(wire.Gap, self.inbound_messages.on_gap),
            # Tasks.
            Row(wire.Export, frames.on_export, frames.check_export),
            Row(wire.Eliminate, frames.on_eliminate, frames.check_eliminate),
            Row(wire.AddRelay, frames.on_add_relay, frames.check_add_relay),
            Row(wire.Unrelay, self._undelivered_messages.on_unrelay),
            Row(wire.Dismiss, self.idle_relays.on_dismiss),
            Row(wire.Dismissed, self.idle_relays.on_dismissed),
            Row(wire.Search, resolver.on_search, frames.check_search),
            Row(wire.Cancel, resolver.on_cancel),
            Row(wire.ConnectOffer, _ignore),
            # Errors.
            Row(wire.Error, self._on_error, counted=False),
            Row(Reason.WIRE, _ignore, counted=False),
            Row(Reason.NAME_TAKEN, names.on_refusal),
            Row(Reason.ACCESS, frames.on_denied),
            Row(Reason.BUSY, frames.on_busy),
            Row(Reason.ABSENT, resolver.anywhere.on_absent),
        )

    def _receive(self, link: Link, frame: Frame, now: float) -> None:
        peer = link.peer
        if peer is not None and peer.session.link != link.id:
            return  # the peer resends on the link in use
        link.step(frame.type)
        row = self._rows.get(type(frame))
        if row is None:
            return  # of a feature that another bus of this process uses
        if row.of_link:
            row.handle(link, frame, now)
        else:
            assert peer is not None
            self._handle(row, peer, frame, now)

    @staticmethod
    def _handle(row: Row[Any], peer: Peer, frame: Frame, now: float) -> None:
        if not row.counted:
            row.handle(peer, frame, now)
            return
        peer.acks.count_control()
        try:
            if row.check is not None:
                frame = row.check(peer, frame)
            row.handle(peer, frame, now)
        except MemoryError:
            peer.acks.controls_received -= 1  # it comes again, by the next link
            raise

    def _on_batch(self, peer: Peer, batch: wire.Batch, now: float) -> None:
        self.inbound_messages.on_batch(peer, batch, now)
        self.outbound_messages.on_ack_in(peer, batch)

    def _on_pong(self, peer: Peer, frame: wire.Pong, now: float) -> None:
        self.keep_alive.on_pong(peer, frame.number, now)
        self.name_registry.on_pong(peer, frame.number)
        for on_pong in self._hooks.on_pong:
            on_pong(peer, frame.number, now)

    def _on_error(self, peer: Peer, error: wire.Error, now: float) -> None:
        row = self._rows.get(error.reason) or Row(wire.Error, _ignore)
        if error.message and row.counted:
            row = Row(wire.Error, self._on_message_refused)
        self._handle(row, peer, error, now)

    def _on_message_refused(self, peer: Peer, error: wire.Error, _: float) -> None:
        self._undelivered_messages.on_refused(peer, error)
        self.outbound_messages.pump(peer)

    def _on_open_stream(self, link: Link, frame: wire.OpenStream, now: float) -> None:
        peer = link.peer
        assert peer is not None
        if frame.incarnation != self.topology.me.incarnation:
            raise WireError(f"OPEN_STREAM is for incarnation {frame.incarnation}")
        if frame.known > peer.session.epoch:
            # The clock of this process was set back. The peer refuses the OPEN_STREAM
            # sent on this link; that on the next link has the greater epoch.
            peer.session.renew(frame.known + 1)
            self.links.drop(link, now)
            return
        epoch = peer.session.their_epoch
        if epoch is not None and frame.epoch > epoch:
            assert link.identity is not None
            self._process_loss.on_new_epoch(peer, link.identity, now)
        self.inbound_messages.on_link_open(peer, frame)
        for on_link in self._hooks.on_link:
            on_link(peer, now)
        self.outbound_messages.pump(peer)
        if link.kind is LinkKind.SIGNALLING and not peer.joined:
            self._process_loss.on_master(peer, now)
            peer.joined = True
            self.name_registry.on_joined(peer)
            self.relays.introduce(self.name_registry.own())
            self.resolver.on_joined(peer, now)
            for on_joined in self._hooks.on_joined:
                on_joined(peer, now)
        self.name_registry.on_link_open(peer)
        self.resolver.own.end_found()
        self.topology.on_use_ended(peer.key)  # if no task uses the link, it is closed
        self.keep_alive.on_link_open(peer, now)


def _no_peers(_: Entry) -> list[Peer]:
    return []


def _ignore(_peer: Peer, _frame: Frame, _now: float) -> None:
    """Do nothing: the frame only shows that the peer is alive."""
