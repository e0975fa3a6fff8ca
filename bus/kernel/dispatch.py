"""`ControlFrames`: the control frames that concern several parts.

It also checks that a peer is entitled to send a frame about a task (BUS-SEC-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.wire import Error, Reason, RequestId
from bus.model.address import Address
from bus.model.registration import RegistrationId, Visibility

if TYPE_CHECKING:
    from bus.kernel.hooks import Hooks
    from bus.kernel.links.idle import IdleLinks
    from bus.kernel.name_registry import NameRegistry
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.relays import Relays
    from bus.kernel.searches.resolver import Resolver
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Characteristics
    from bus.model.registration import Key

__all__ = ["ControlFrames"]


class ControlFrames:
    """The checks of control frames, and the handlers of those for several parts."""

    __slots__ = (
        "_hooks",
        "_idle_links",
        "_name_registry",
        "_relays",
        "_resolver",
        "_topology",
    )

    def __init__(
        self,
        topology: Topology,
        name_registry: NameRegistry,
        relays: Relays,
        resolver: Resolver,
        hooks: Hooks,
        idle_links: IdleLinks,
    ) -> None:
        self._topology: Final = topology
        self._name_registry: Final = name_registry
        self._relays: Final = relays
        self._resolver: Final = resolver
        self._hooks: Final = hooks
        self._idle_links: Final = idle_links

    # Handlers.

    def on_add_relay(self, peer: Peer, frame: wire.AddRelay, now: float) -> None:
        """Add the relay of a task that is announced, or that answers a request."""
        task, own = frame.task, peer.key == _owner(frame.task.id)
        denied = own and not peer.rights.may_register(task.name, peer.key[1])
        if frame.search is None or denied:
            self._relays.add_relay(peer, self._with_visibility(peer, task), now)
            return
        known = self._resolver.on_answer(peer, frame, now)
        known = known or any(each(peer, frame, now) for each in self._hooks.answers)
        if not known and not frame.addresses:
            # No request waits for the answer any more. But a peer that answers on this
            # link assumes from now on that this process knows its task.
            _check_own(peer, task.id)
            relay = self._relays.add_relay(peer, task, now)
            if not self._has_subscriber(relay):
                # The peer has adopted the request; only this refusal ends that.
                error = Error(reason=Reason.CLOSING, request=frame.search)
                peer.session.send_control(error)

    def on_export(self, peer: Peer, frame: wire.Export, now: float) -> None:
        """Record the name of a slave's task, and send the searches for it there."""
        if self._name_registry.on_export(peer, frame, now):
            self._resolver.on_export(peer, frame.name)

    def on_eliminate(self, peer: Peer, frame: wire.Eliminate, now: float) -> None:
        """Forget a task of another process that departed."""
        held = self._name_registry.on_eliminate(frame, peer)
        self._relays.on_eliminate(frame.id)
        self._resolver.anywhere.on_eliminated(frame.id, frame.name, now)
        for on_eliminated in self._hooks.on_eliminated:
            on_eliminated(frame, held, now)

    def on_busy(self, peer: Peer, error: Error, now: float) -> None:
        """Keep the link that a peer needs, or continue a search without the peer."""
        if error.request is None:
            self._idle_links.on_refused(peer)
        else:
            self._resolver.on_refusal(peer, error, now)

    def on_denied(self, peer: Peer, error: Error, now: float) -> None:
        """Evict a task, or end a search, that its process has no right to."""
        if error.id is not None:
            self._name_registry.on_refusal(peer, error, now)
        else:
            self._resolver.on_refusal(peer, error, now)

    def _has_subscriber(self, relay: Relay | None) -> bool:
        """Return True if a request of this process matches a task, without a master."""
        topology = self._topology
        stands = topology.is_master or topology.master() is not None
        return not stands and relay is not None and bool(self._relays.audience(relay))

    # Checks of the sender (BUS-SEC-7), and what a frame may state of it.

    def check_add_relay(self, peer: Peer, frame: wire.AddRelay) -> wire.AddRelay:
        """Require the peer's own task, or the answer of another that it forwards."""
        if frame.search is None or not self._is_forwarder(peer):
            _check_own(peer, frame.task.id)
        self._check_machine(peer, frame.task.id)
        return replace(frame, task=self._with_user(peer, frame.task))

    def check_search(self, peer: Peer, frame: wire.Search) -> wire.Search:
        """Require a slave's own search, since its sender gets the answer."""
        sender = self.check_asker(peer, frame.id, frame.sender)
        if peer.key == _owner(sender.id):
            sender = self._with_visibility(peer, sender)
        return replace(frame, sender=sender)

    def check_asker(
        self, peer: Peer, request: RequestId, task: Characteristics
    ) -> Characteristics:
        """Require a slave's own request and task, since the task gets the answers."""
        self._check_slave(peer, request, task.id)
        return self._with_user(peer, task)

    def check_export(self, peer: Peer, frame: wire.Export) -> wire.Export:
        """Require the peer's own task."""
        _check_own(peer, frame.id)
        return frame

    def check_eliminate(self, peer: Peer, frame: wire.Eliminate) -> wire.Eliminate:
        """Require a slave's own task, or one of another master's machine.

        A new address of a task of this machine is on another one. But tasks of other
        machines, of whose departure a slave is informed, too, may move to this one.
        """
        self._check_slave(peer, frame.id)
        self._check_machine(peer, frame.id)
        new, here = frame.moved_to, self._topology.me.machine
        if new and frame.id.machine == here == Address.parse(new).machine:
            raise WireError(f"ELIMINATE has a new address here: {new!r}")
        return frame

    def _is_forwarder(self, peer: Peer) -> bool:
        """Return True if a peer is a master that acts for other processes.

        For a slave this is its own master; for a master, any peer of another machine.
        """
        topology = self._topology
        if topology.is_master:
            return peer.machine != topology.me.machine
        return peer is topology.master()

    def _with_user(self, peer: Peer, task: Characteristics) -> Characteristics:
        """Set the user of a slave's task, for the next receivers of the frame.

        If the peer acts for other processes, the user that it reports is kept;
        otherwise it is replaced.
        """
        if self._is_forwarder(peer):
            return task
        user = None
        if self._topology.is_master and peer.credentials is not None:
            user = peer.credentials.uid
        return replace(task, user=user)

    def _with_visibility(self, peer: Peer, task: Characteristics) -> Characteristics:
        """Return a peer's task; it is private if the peer may not hold its name."""
        if self._name_registry.may_have(peer, task.name):
            return task
        # A process that must release a name still receives the answers until then.
        return replace(task, visibility=Visibility.PRIVATE)

    def _check_slave(self, peer: Peer, *numbers: RegistrationId | RequestId) -> None:
        """Raise if a slave refers to a task or request of another process."""
        if peer in self._topology.slaves():
            for number in numbers:
                _check_own(peer, number)

    def _check_machine(self, peer: Peer, number: RegistrationId) -> None:
        """Raise if the master of one machine speaks for another one (BUS-SEC-7)."""
        foreign = self._topology.is_master and peer.machine != self._topology.me.machine
        if foreign and number.machine != peer.machine:
            raise WireError(f"{peer.key} refers to a task of machine {number.machine}")


def _owner(number: RegistrationId | RequestId) -> Key:
    """Return the process of a task or a request."""
    return number.machine, number.process


def _check_own(peer: Peer, number: RegistrationId | RequestId) -> None:
    """Raise unless a peer refers to its own task or request (BUS-SEC-7)."""
    if peer.key != _owner(number):
        raise WireError(f"{peer.key} refers to a task of {_owner(number)}")
