"""`ControlFrames`: the control frames about tasks, dispatched to their handlers.

It also checks that a peer is entitled to send a frame about a task (BUS-SEC-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.address import Address
from bus.core.wire import (
    AddRelay,
    Cancel,
    Dismiss,
    Dismissed,
    Eliminate,
    Error,
    Export,
    Gap,
    Reason,
    RequestId,
    Search,
    Unexport,
    Unrelay,
)
from bus.core.wire.task_frames import Subscribe, Unsubscribe
from bus.errors import WireError
from bus.registration import RegistrationId, Visibility

if TYPE_CHECKING:
    from bus.core.peer.peer import Peer
    from bus.core.peer.relay import Relay
    from bus.core.remote.idle_relays import IdleRelays
    from bus.core.remote.inbound_messages import InboundMessages
    from bus.core.remote.name_registry import NameRegistry
    from bus.core.remote.relays import Relays
    from bus.core.remote.remote_subscriptions import RemoteSubscriptions
    from bus.core.remote.resolver import Resolver
    from bus.core.remote.topology import Topology
    from bus.core.remote.undelivered_messages import UndeliveredMessages
    from bus.core.wire import Characteristics, Frame

__all__ = ["ControlFrames"]


class ControlFrames:
    """The handlers of control frames, except frames about links and streams."""

    __slots__ = (
        "_idle_relays",
        "_inbound_messages",
        "_name_registry",
        "_relays",
        "_remote_subscriptions",
        "_resolver",
        "_topology",
        "_undelivered_messages",
    )

    def __init__(
        self,
        topology: Topology,
        *,
        name_registry: NameRegistry,
        relays: Relays,
        undelivered_messages: UndeliveredMessages,
        inbound_messages: InboundMessages,
        resolver: Resolver,
        remote_subscriptions: RemoteSubscriptions,
        idle_relays: IdleRelays,
    ) -> None:
        self._topology: Final = topology
        self._name_registry: Final = name_registry
        self._relays: Final = relays
        self._undelivered_messages: Final = undelivered_messages
        self._inbound_messages: Final = inbound_messages
        self._resolver: Final = resolver
        self._remote_subscriptions: Final = remote_subscriptions
        self._idle_relays: Final = idle_relays

    def handle(  # noqa: PLR0912, PLR0915 # a dispatch table
        self, peer: Peer, frame: Frame, now: float
    ) -> None:
        """Handle a control frame about tasks.

        Raises:
            WireError: the peer refers to a task of another process, or the frame is
              invalid.
        """
        frame = self._with_user(peer, frame)
        match frame:
            case AddRelay(search=None):
                self._check_own(peer, frame.task.id)
                self._on_introduced(peer, frame.task, now)
            case AddRelay() if not self._may_answer(peer, frame):
                self._on_introduced(peer, frame.task, now)
            case AddRelay():
                known = self._resolver.on_answer(peer, frame, now)
                known = known or self._remote_subscriptions.on_answer(peer, frame, now)
                if not known and not frame.addresses:
                    # No request waits for the answer any more. But a peer that answers
                    # on this link assumes from now on that this process knows its task.
                    self._check_own(peer, frame.task.id)
                    relay = self._relays.add_relay(peer, frame.task, now)
                    if not self._has_subscriber(relay):
                        # The peer has adopted the request; only this refusal ends that.
                        error = Error(reason=Reason.CLOSING, request=frame.search)
                        peer.session.send_control(error)
            case Unrelay():
                self._undelivered_messages.on_unrelay(peer, frame)
            case Dismiss():
                self._idle_relays.on_dismiss(peer, frame.relay)
            case Dismissed():
                self._idle_relays.on_dismissed(peer, frame.relay)
            case Gap():
                self._inbound_messages.on_gap(peer, frame)
            case Search():
                self._check_asker(peer, frame.id, frame.sender)
                self._resolver.on_search(peer, self._hide_sender(peer, frame), now)
            case Cancel():
                self._resolver.on_cancel(peer, frame.id)
            case Export():
                self._check_own(peer, frame.id)
                if self._name_registry.on_export(peer, frame, now):
                    self._resolver.on_export(peer, frame.name)
            case Unexport():
                self._name_registry.on_unexport(peer, frame)
            case Eliminate():
                if self._topology.is_master and peer in self._topology.slaves():
                    self._check_own(peer, frame.id)
                self._check_machine(peer, frame.id)
                # Before the registry forgets it: a task may give its own name only.
                moved = self._has_moved(frame)
                self._name_registry.on_eliminate(frame, peer)
                self._relays.on_eliminate(frame.id)
                self._resolver.on_eliminated(frame.id, frame.name, now)
                if moved:
                    self._resolver.on_moved(frame.name, frame.moved_to, now)
            case Subscribe():
                self._check_asker(peer, frame.id, frame.subscriber)
                self._remote_subscriptions.on_subscribe(peer, frame, now)
            case Unsubscribe():
                self._remote_subscriptions.on_unsubscribe(peer, frame.id)
            case Error(reason=Reason.NAME_TAKEN, id=RegistrationId() as number):
                self._name_registry.on_refusal(peer, number)
            case Error(reason=Reason.ACCESS, id=RegistrationId() as number):
                self._name_registry.on_refusal(peer, number, denied=True)
            case Error(reason=Reason.ACCESS, request=RequestId() as search):
                self._resolver.on_refusal(peer, search, now, denied=True)
            case Error(reason=Reason.MOVED, request=RequestId() as search):
                self._resolver.on_moved_answer(peer, search, frame.text)
            case Error(reason=Reason.BUSY, request=RequestId() as search):
                self._resolver.on_refusal(peer, search, now)
            case Error(reason=Reason.ABSENT, request=RequestId() as search):
                self._resolver.on_absent(peer, search, now)
            case Error(reason=Reason.CLOSING, request=RequestId() as number):
                self._remote_subscriptions.on_refusal(peer, number)
            case _:
                pass

    def _has_moved(self, frame: Eliminate) -> bool:
        """Return True if the holder of a name of this machine has moved to another one.

        A slave's master also forwards the departures of other machines' tasks. These
        may have moved to this machine.

        Raises:
            WireError: its new address is on this machine.
        """
        here = self._topology.me.machine
        if not frame.moved_to or frame.id.machine != here:
            return False
        if Address.parse(frame.moved_to).machine == here:
            raise WireError(f"ELIMINATE has a new address here: {frame.moved_to!r}")
        user = self._name_registry.users.find(frame.name)
        return user is not None and user.id == frame.id

    def _has_subscriber(self, relay: Relay | None) -> bool:
        """Return True if a request of this process matches a task, without a master."""
        topology = self._topology
        stands = topology.is_master or topology.master() is not None
        return not stands and relay is not None and bool(self._relays.audience(relay))

    def _on_introduced(self, peer: Peer, task: Characteristics, now: float) -> None:
        """Add the relay of a task that a process announces, maybe without its name."""
        if not self._name_registry.may_have(peer, task.name):
            # A process that must release a name still receives the answers to its task
            # until then.
            task = replace(task, visibility=Visibility.PRIVATE)
        self._relays.add_relay(peer, task, now)

    def _may_answer(self, peer: Peer, frame: AddRelay) -> bool:
        """Return True if a process that answers with its own task may hold its name.

        Raises:
            WireError: the task is another's, and the peer is not a master that
              forwards.
        """
        owner = (frame.task.id.machine, frame.task.id.process)
        if owner != peer.key:
            if not self._is_forwarder(peer):
                self._check_own(peer, frame.task.id)
            self._check_machine(peer, frame.task.id)
            return True
        return peer.rights.may_register(frame.task.name, peer.key[1])

    def _is_forwarder(self, peer: Peer) -> bool:
        """Return True if a peer is a master that acts for other processes.

        For a slave this is its own master; for a master, any peer of another machine.
        """
        topology = self._topology
        if topology.is_master:
            return peer.machine != topology.me.machine
        return peer is topology.master()

    def _with_user(self, peer: Peer, frame: Frame) -> Frame:
        """Set the user of a slave's task, for the next receivers of the frame.

        If the peer acts for other processes, the user that it reports is kept;
        otherwise it is replaced.
        """
        if self._is_forwarder(peer):
            return frame
        user = None
        if self._topology.is_master and peer.credentials is not None:
            user = peer.credentials.uid
        match frame:
            case AddRelay(task=task):
                return replace(frame, task=replace(task, user=user))
            case Search(sender=task):
                return replace(frame, sender=replace(task, user=user))
            case Subscribe(subscriber=task):
                return replace(frame, subscriber=replace(task, user=user))
            case _:
                return frame

    def _hide_sender(self, peer: Peer, frame: Search) -> Search:
        """Return a search; its sender is private if the peer may not hold its name."""
        sender = frame.sender
        if peer.key != (sender.id.machine, sender.id.process):
            return frame
        if self._name_registry.may_have(peer, sender.name):
            return frame
        return replace(frame, sender=replace(sender, visibility=Visibility.PRIVATE))

    def _check_asker(
        self, peer: Peer, number: RequestId, task: Characteristics
    ) -> None:
        """Raise if a slave asks as another process, which would get the answers."""
        if self._topology.is_master and peer in self._topology.slaves():
            self._check_own(peer, number)
            self._check_own(peer, task.id)

    def _check_machine(self, peer: Peer, number: RegistrationId) -> None:
        """Raise if the master of one machine speaks for another one (BUS-SEC-7)."""
        foreign = self._topology.is_master and peer.machine != self._topology.me.machine
        if foreign and number.machine != peer.machine:
            raise WireError(f"{peer.key} refers to a task of machine {number.machine}")

    @staticmethod
    def _check_own(peer: Peer, number: RegistrationId | RequestId) -> None:
        """Raise unless a peer refers to its own task or request (BUS-SEC-7)."""
        owner = (number.machine, number.process)
        if peer.key != owner:
            raise WireError(f"{peer.key} refers to a task of {owner}")
