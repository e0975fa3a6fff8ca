"""`LinkTable`: all links of a process, from the handshake to their end.

If a link is lost, the side that dialled it dials again, and the other side waits.
Between two processes one link is used, and both sides choose the same one
(BUS-ROUTE-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.local.actions import Dial, HangUp
from bus.core.remote.handshake import handshake, refusal, welcome
from bus.core.remote.link import Link, LinkState
from bus.core.wire import VERSIONS, LinkKind, Reason, Refused, Role
from bus.errors import WireError
from bus.events import BusReason
from bus.rights import UNRESTRICTED

if TYPE_CHECKING:
    from bus.core.peer.peer import Peer
    from bus.core.remote.outbound_messages import OutboundMessages
    from bus.core.remote.relays import Relays
    from bus.core.remote.topology import Topology
    from bus.core.wire import Hello, Identity, Welcome
    from bus.registration import Key
    from bus.rights import Credentials

__all__ = ["LinkTable"]

# First and longest delay between attempts to find a master (BUS-INIT-3). A longer one
# would also delay a process that may become master: it tries that at each attempt.
_REDIAL_S: Final = 0.1
_REDIAL_S_MAX: Final = 0.8


class LinkTable:
    """The link table of one process, by the numbers that its driver assigned.

    Static addresses of other machines are keys in the place of a machine's name, which
    they cannot equal, until a process there has proved or stated its machine.

    master: the addresses on which the master of this machine listens.
    static: known addresses of the masters of other machines.
    redial: when to dial a master again, by machine.
    refusal: the last REFUSED from the master of this machine; None if there was none.
    """

    __slots__ = (
        "_delays",
        "_found_at",
        "_machines",
        "_master",
        "_outbound_messages",
        "_relays",
        "_topology",
        "by_number",
        "redial",
        "refusal",
    )

    def __init__(
        self,
        topology: Topology,
        relays: Relays,
        outbound_messages: OutboundMessages,
        master: tuple[str, ...],
        static: tuple[str, ...] = (),
    ) -> None:
        self._topology: Final = topology
        self._relays: Final = relays
        self._outbound_messages: Final = outbound_messages
        self._master: Final = master
        # The addresses on which the masters of other machines listen, by machine.
        self._machines: Final[dict[str, tuple[str, ...]]] = {
            address: (address,) for address in static
        }
        # The machine found at a static address.
        self._found_at: Final[dict[str, str]] = {}
        self.redial: Final[dict[str, float]] = {}
        self._delays: Final[dict[str, float]] = {}
        self.by_number: Final[dict[int, Link]] = {}
        self.refusal: Refused | None = None

    def late_at(self, link: Link) -> float | None:
        """Return when a link that does not open is dropped; None for an open link."""
        if link.state is LinkState.OPEN:
            return None
        limits = self._topology.limits
        silent = link.state is LinkState.ACCEPTED
        wait = limits.auth_timeout_s if silent else limits.connect_timeout_s
        return link.since + wait

    def drop_late(self, now: float) -> None:
        """Drop the links that do not open in time."""
        for link in list(self.by_number.values()):
            late_at = self.late_at(link)
            if late_at is not None and late_at <= now:
                self.drop(link, now)

    # New links.

    def on_machine_found(self, machine: str, addresses: tuple[str, ...]) -> None:
        """Record the addresses of another machine's master; the lower machine dials."""
        self._machines[machine] = addresses
        if self._topology.is_master and self._topology.me.machine < machine:
            self.dial_machine(machine)

    def dial_static(self) -> None:
        """Dial the masters at the static addresses, if this process is a master."""
        for key in list(self._machines):
            if _is_static(key):
                self.dial_machine(key)

    def _on_static_found(self, address: str, machine: str) -> None:
        """Record which machine is at a static address."""
        if machine == self._topology.me.machine:
            self._machines.pop(address, None)
            self._topology.complain(f"{address} is this machine: it is not dialled")
        else:
            self._found_at[address] = machine

    def on_dialled(
        self,
        number: int,
        kind: LinkKind,
        key: Key,
        now: float,
        credentials: Credentials = UNRESTRICTED,
    ) -> None:
        """Take over a link that this process has dialled, and send HELLO."""
        if _is_static(key[0]) and credentials.machine is not None:
            self._on_static_found(key[0], credentials.machine)
        self.by_number[number] = Link(number, kind, now, key, credentials=credentials)
        self._topology.send(number, handshake(self._topology, kind))

    def on_accepted(
        self, number: int, now: float, credentials: Credentials = UNRESTRICTED
    ) -> None:
        """Take over a link that another process has dialled.

        If too many peers have sent no HELLO, the oldest of their links is closed, since
        a correct peer sends HELLO at once (BUS-SEC-9).
        """
        self.by_number[number] = Link(number, None, now, credentials=credentials)
        silent = [
            each for each in self.by_number.values() if each.state is LinkState.ACCEPTED
        ]
        if len(silent) > self._topology.limits.unauthenticated_links:
            self._topology.complain(
                f"the link with {silent[0].who} is closed: too many: {len(silent)}"
            )
            self.hang_up(silent[0])

    def on_hello(self, link: Link, frame: Hello, now: float) -> None:
        """Answer HELLO with WELCOME or REFUSED."""
        reason = refusal(self._topology, frame)
        if reason is None and frame.kind is LinkKind.SIGNALLING:
            key = (frame.identity.machine, frame.identity.process)
            peer = self._topology.peers.get(key)
            if peer is not None and self._has_twin(peer, frame.identity.incarnation):
                reason = Reason.DUPLICATE
        if reason is None:
            link.kind = frame.kind
            self.identify(link, frame, now)
            if link.peer is not None:
                link.peer.inside_address = frame.inside_address
            return
        self._refuse(link, reason, frame.identity, now)

    def _has_twin(self, peer: Peer, incarnation: int) -> bool:
        """Return True if a process already has a signalling link (BUS-INIT-6).

        On this machine a link of another incarnation counts, too: an open link belongs
        to a live process, which must not lose its name. The loss of a link from another
        machine may not have been detected yet.
        """
        if peer.session.incarnation > incarnation:
            return True
        link = self.by_number.get(peer.session.link or 0)
        if link is None or link.kind is not LinkKind.SIGNALLING:
            return False
        own = peer.machine == self._topology.me.machine
        return own or peer.session.incarnation == incarnation

    def _refuse(self, link: Link, reason: Reason, other: Identity, now: float) -> None:
        if reason is not Reason.BUSY:  # on BUSY the peer dials another process
            name = f"{other.machine}/{other.process}"
            self._topology.complain(f"{name} is rejected: {reason.value}")
        if not link.dialled:  # else the peer, which has accepted, expects no REFUSED
            refused = Refused(
                reason=reason, versions=VERSIONS, machine=self._topology.me.machine
            )
            self._topology.send(link.id, refused)
        self.hang_up(link)
        if link.wanted is not None and _is_static(link.wanted[0]):
            self._redial(link.wanted[0], now)  # the machine there may change

    def on_refused(self, link: Link, frame: Refused, now: float) -> None:
        """Continue without a link, since the peer refuses it."""
        self.hang_up(link)
        assert link.wanted is not None
        assert link.kind is not None
        if link.kind is LinkKind.SIGNALLING:
            self._redial(link.wanted[0], now)
            if link.wanted[0] == self._topology.me.machine:
                self.refusal = frame
            elif frame.reason is Reason.DUPLICATE:
                # Both sides have dialled. Without a certificate, the frame tells that
                # the other link leads to the same machine.
                proved = link.credentials.machine is not None
                if _is_static(link.wanted[0]) and frame.machine and not proved:
                    self._on_static_found(link.wanted[0], frame.machine)
            elif frame.reason is not Reason.BUSY:
                self._topology.complain(
                    f"{link.wanted[0]} refuses this process: {frame.reason.value}"
                )
        elif (peer := self._topology.peers.get(link.wanted)) is not None:
            if frame.reason is not Reason.DUPLICATE:
                self.on_dial_failed(link.kind, link.wanted, now)
            else:
                peer.dialling = False

    def identify(self, link: Link, frame: Hello | Welcome, now: float) -> None:
        """Record the identity of the peer; use the link, unless a better one exists."""
        identity = frame.identity
        key = (identity.machine, identity.process)
        if (
            link.wanted is not None
            and link.kind is LinkKind.DATA
            and link.wanted != key
        ):
            if (wanted := self._topology.peers.get(link.wanted)) is not None:
                wanted.addresses = ()  # another process listens there
            raise WireError(f"{key} answers in place of {link.wanted}")
        reason = self._objection(identity, link)
        if reason is not None:
            self._refuse(link, reason, identity, now)
            return
        if link.wanted is not None and _is_static(link.wanted[0]):
            self._on_static_found(link.wanted[0], identity.machine)
        peer = self._relays.peer_for(key, identity.incarnation, now)
        if peer is None:
            self._refuse(link, Reason.DUPLICATE, identity, now)
            return
        link.state = LinkState.OPENING
        if link.kind is LinkKind.SIGNALLING:
            self._delays.pop(key[0], None)
            if link.wanted is not None:
                self._delays.pop(link.wanted[0], None)
        link.identity = identity
        peer.role = identity.role
        peer.message_bytes_max = frame.message_bytes_max
        if link.dialled:
            peer.dialling = False
        old = self.by_number.get(peer.session.link or 0)
        if old is not None:
            if not link.beats(old, ours=self._is_lower(identity)):
                self.hang_up(link)
                return
            self.hang_up(old)
        link.peer = peer
        if peer.credentials is None:
            peer.admit(link.credentials)
        peer.closing, peer.idle_since = False, None
        peer.received_at = peer.pinged_at = now
        self.on_process_up(peer, identity)
        opening = peer.session.attach(link.id)
        if not link.dialled:
            self._topology.send(link.id, welcome(self._topology))
        self._topology.send(link.id, opening)

    def _objection(self, identity: Identity, link: Link) -> Reason | None:
        """Return why a peer is not what it claims to be, or may not join."""
        proved = link.credentials.machine
        if proved not in {None, identity.machine}:
            self._topology.complain(
                f"machine {proved} claims to be {identity.machine} (BUS-SEC-5)"
            )
            return Reason.ACCESS
        if link.credentials.outside and identity.machine == self._topology.me.machine:
            self._topology.complain("a process of this machine came by the network")
            return Reason.ACCESS
        if not self._may_join(identity, link):
            return Reason.ACCESS
        present = self._topology.peers.get((identity.machine, identity.process))
        if present is not None and present.is_other(link.credentials):
            return Reason.DUPLICATE
        return None

    def _may_join(self, identity: Identity, link: Link) -> bool:
        """Return True for a peer with all rights, or a slave of this machine.

        A master acts for other processes and is trusted, so it needs all rights
        (BUS-SEC-1).
        """
        if link.credentials.rights.whole:
            return True
        own = identity.machine == self._topology.me.machine
        return own and identity.role is Role.SLAVE

    def on_process_up(self, peer: Peer, identity: Identity) -> None:
        """Record that a process is reachable, if it was not before."""
        peer.parted = BusReason.GIVEN_UP  # until a lost link sets another reason
        if peer.pid is None:
            peer.pid = identity.process_id
            if self._topology.trace_sink is not None:
                self._topology.trace_sink.link_up(peer.pid, *peer.key)

    def on_process_down(self, peer: Peer) -> None:
        """Record that a process is lost, if there ever was a link with it."""
        if peer.pid is not None and self._topology.trace_sink is not None:
            reason = peer.parted
            if reason is BusReason.DIED and peer.machine != self._topology.me.machine:
                reason = BusReason.GIVEN_UP  # a network failure looks the same
            self._topology.trace_sink.link_down(peer.pid, *peer.key, reason)
        peer.pid = None

    def _is_lower(self, other: Identity) -> bool:
        me = self._topology.me
        mine = (me.machine_id, me.process, me.incarnation)
        return mine < (other.machine_id, other.process, other.incarnation)

    # Lost links.

    def on_link_lost(
        self, link: Link, now: float, parted: BusReason = BusReason.GIVEN_UP
    ) -> None:
        """Continue without a link; dial again if this side had dialled it.

        parted: how the link was lost.
        """
        peer = link.peer
        if peer is None:
            if link.dialled:
                assert link.wanted is not None
                self._dial_again(link.kind, link.wanted, now)
            return
        if peer.session.link != link.id:
            return
        peer.session.detach()
        peer.parted = parted
        peer.since, peer.closing, peer.idle_since = now, False, None
        if link.kind is LinkKind.SIGNALLING:
            if link.wanted is not None:
                self.dial_machine(link.wanted[0])
            # Another address may lead there still, and the other side may not know
            # where this machine is.
            for address, machine in self._found_at.items():
                if machine == peer.machine:
                    self._redial(address, now)
        else:
            self._relays.dial(peer)

    def _dial_again(self, kind: LinkKind | None, key: Key, now: float) -> None:
        """Dial again after the loss of a link that was not yet open."""
        if kind is LinkKind.SIGNALLING:
            self._redial(key[0], now)
        elif (peer := self._topology.peers.get(key)) is not None:
            peer.dialling = False
            self._relays.dial(peer)

    def drop(self, link: Link, now: float) -> None:
        """Close a useless link, and continue as after its loss."""
        self.hang_up(link)
        self.on_link_lost(link, now)

    def hang_up(self, link: Link) -> None:
        """Close a link, and do nothing else."""
        self.by_number.pop(link.id, None)
        self._topology.todo.append(HangUp(link.id))

    def dial_machine(self, machine: str) -> None:
        """Dial the master of a machine, unless there is a link with it."""
        own = machine == self._topology.me.machine
        if own and self._topology.is_master:
            return
        addresses = self._master if own else self._machines.get(machine, ())
        name = self._found_at.get(machine, machine)
        linked = any(
            peer.machine == name and peer.session.link is not None
            for peer in self._topology.joined()
        )
        if addresses and not linked:
            self._topology.todo.append(
                Dial((machine, ""), LinkKind.SIGNALLING, addresses)
            )

    def on_dial_failed(self, kind: LinkKind, key: Key, now: float) -> None:
        """Declare a peer lost if nothing listens at its address; redial a master."""
        if kind is LinkKind.DATA:
            peer = self._topology.peers.get(key)
            if peer is None or not peer.dialling:
                return  # the dial was to an earlier incarnation, lost meanwhile
            peer.dialling = False
            if peer.session.link is None:
                if not peer.bound:
                    self._outbound_messages.fail_unreachable(peer)
                self._topology.lose(peer, now)
            return
        if self._topology.is_master and key[0] == self._topology.me.machine:
            return
        machine = self._found_at.get(key[0], key[0])
        for peer in self._topology.joined():
            if peer.machine == machine and peer.session.link is None:
                self._topology.lose(peer, now)
        self._redial(key[0], now)

    def redial_due(self, now: float) -> None:
        """Dial the masters whose time to be dialled again has come."""
        for machine, at in list(self.redial.items()):
            if at <= now:
                del self.redial[machine]
                self.dial_machine(machine)

    def schedule_redial(self, machine: str, now: float) -> None:
        """Schedule a dial to a lost master, unless one is scheduled."""
        if machine not in self.redial:
            self._redial(machine, now)

    def _redial(self, machine: str, now: float) -> None:
        """Schedule a dial to a master; each delay is longer than the one before."""
        delay_s = self._delays.get(machine, _REDIAL_S)
        self.redial[machine] = now + delay_s
        self._delays[machine] = min(2 * delay_s, _REDIAL_S_MAX)


def _is_static(key: str) -> bool:
    """Return True for a static address in the place of a machine's name."""
    return "://" in key
