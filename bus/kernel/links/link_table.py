"""`LinkTable`: all links of a process, from the handshake to their end.

If a link is lost, the side that dialled it dials again, and the other side waits.
Between two processes one link is used, and both sides choose the same one
(BUS-ROUTE-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.kernel import constants
from bus.kernel.links.link import (
    Link,
    LinkState,
    handshake,
    needs_no_link,
    objection,
    refusal,
    welcome,
)
from bus.kernel.links.master_dialler import (
    DialFailure,
    MasterDialler,
    Masters,
    is_static,
)
from bus.kernel.tasks.actions import HangUp
from bus.kernel.wire import VERSIONS, Error, LinkKind, Reason, Refused
from bus.model.events import BusReason
from bus.model.rights import UNRESTRICTED

if TYPE_CHECKING:
    from bus.kernel.links.link import Objection
    from bus.kernel.messages.outbound_messages import UndeliveredMessages
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Hello, Identity, Welcome
    from bus.model.registration import Key
    from bus.model.rights import Credentials

__all__ = ["LinkTable"]

_WORDS_MAX: Final = 256  # characters of an error description


class LinkTable:
    """The link table of one process, by the numbers that its driver assigned.

    dialler: dials the master of this machine.
    masters: the slot for those of other machines.
    refusal: the last REFUSED from the master of this machine; None if there was none.
    """

    __slots__ = (
        "_alarm",
        "_rejected",
        "_relays",
        "_topology",
        "_undelivered_messages",
        "by_number",
        "dialler",
        "masters",
        "refusal",
    )

    def __init__(
        self,
        topology: Topology,
        relays: Relays,
        undelivered_messages: UndeliveredMessages,
        dialler: MasterDialler,
    ) -> None:
        self._topology: Final = topology
        self._relays: Final = relays
        self._undelivered_messages: Final = undelivered_messages
        self._alarm: Final = topology.timers.alarm(self._drop_late)
        self.dialler: Final = dialler
        self.masters: Masters = Masters()
        self.by_number: Final[dict[int, Link]] = {}
        self.refusal: Refused | None = None
        # The process that was rejected last: one that tries again is logged once.
        self._rejected: tuple[Identity, Reason] | None = None

    def late_at(self, link: Link) -> float | None:
        """Return when a link that does not open is dropped; None for an open link."""
        if link.state is LinkState.OPEN:
            return None
        silent = link.state is LinkState.ACCEPTED
        connect_s = self._topology.config.connect_timeout_s
        return link.since + (constants.AUTH_TIMEOUT_S if silent else connect_s)

    def _drop_late(self, now: float) -> float | None:
        """Drop the links that do not open in time."""
        for link in list(self.by_number.values()):
            late_at = self.late_at(link)
            if late_at is not None and late_at <= now:
                waited_s = now - link.since
                why = f"no answer to HELLO within {waited_s:.0f} s"
                self.masters.on_link_failed(link, DialFailure(why), now)
                self.drop(link, now)
        times = map(self.late_at, self.by_number.values())
        return min([at for at in times if at is not None], default=None)

    # New links.

    def on_dialled(
        self,
        number: int,
        kind: LinkKind,
        key: Key,
        now: float,
        credentials: Credentials = UNRESTRICTED,
    ) -> None:
        """Take over a link that this process has dialled, and send HELLO."""
        if kind is LinkKind.SIGNALLING:
            self.masters.on_dialled(key[0], credentials.machine, now)
        self._alarm.by(now + self._topology.config.connect_timeout_s)
        self.by_number[number] = Link(number, kind, now, key, credentials=credentials)
        self._topology.send(number, handshake(self._topology, kind))

    def on_accepted(
        self, number: int, now: float, credentials: Credentials = UNRESTRICTED
    ) -> None:
        """Take over a link that another process has dialled.

        If too many peers have sent no HELLO, the oldest of their links is closed, since
        a correct peer sends HELLO at once (BUS-SEC-9).
        """
        connect_s = self._topology.config.connect_timeout_s
        self._alarm.by(now + min(constants.AUTH_TIMEOUT_S, connect_s))
        self.by_number[number] = Link(number, None, now, credentials=credentials)
        silent = [
            each for each in self.by_number.values() if each.state is LinkState.ACCEPTED
        ]
        if len(silent) > constants.UNAUTHENTICATED_LINKS:
            name, count = silent[0].peer_name, len(silent)
            self._topology.complain(
                f"the link with {name} is closed: too many: {count}"
            )
            self.hang_up(silent[0])

    def on_hello(self, link: Link, frame: Hello, now: float) -> None:
        """Answer HELLO with WELCOME or REFUSED."""
        reason = refusal(self._topology, frame, link.credentials)
        if reason is None and frame.kind is LinkKind.SIGNALLING:
            reason = self._claim(link, frame.identity, now)
            key = (frame.identity.machine, frame.identity.process)
            peer = self._topology.peers.get(key)
            if (
                reason is None
                and peer is not None
                and self._has_twin(peer, frame.identity.incarnation)
            ):
                reason = Reason.DUPLICATE
        if reason is None:
            link.kind = frame.kind
            self.identify(link, frame, now)
            if link.peer is not None:
                link.peer.inside_address = frame.inside_address
            return
        normal = reason is Reason.DUPLICATE and needs_no_link(
            self._topology, frame.identity, link.credentials
        )
        self._refuse(link, reason, frame.identity, now, is_normal=normal)

    def _claim(self, link: Link, identity: Identity, now: float) -> Reason | None:
        """Return the reason to refuse the master of another machine (BUS-DISC-8).

        Also None for a peer that `identify` refuses for another reason.
        """
        if identity.machine == self._topology.me.machine:
            return None
        objected = objection(self._topology, identity, link.credentials)
        if objected is None:
            return self.masters.on_claim(identity, now)
        named_alike = objected.reason is Reason.MACHINE_NAME
        return Reason.MACHINE_NAME if named_alike else None

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

    def _refuse(
        self,
        link: Link,
        reason: Reason,
        other: Identity,
        now: float,
        *,
        is_normal: bool = False,
    ) -> None:
        """Refuse a peer, and log it.

        is_normal: True if its process needs no other link, so that nothing is wrong.
        """
        me = self._topology.me.machine
        conflict = reason is Reason.MACHINE_NAME and (
            other.machine != me or link.credentials.outside
        )
        namesake = other.machine if conflict else ""
        text = self.masters.on_rejected(link, reason, namesake, now)
        # On BUSY the peer dials another process.
        is_quiet = conflict or is_normal or reason is Reason.BUSY
        if not is_quiet and self._rejected != (other, reason):
            self._rejected = other, reason
            self._topology.complain(_rejection_of(other, reason))
        # A peer that has accepted expects no other REFUSED.
        if not link.dialled or (conflict and link.kind is LinkKind.SIGNALLING):
            refused = Refused(reason=reason, text=text, versions=VERSIONS, machine=me)
            self._topology.send(link.id, refused)
        self.hang_up(link)

    def on_refused(self, link: Link, frame: Refused, now: float) -> None:
        """Continue without a link, since the peer refuses it."""
        if link.peer is not None:  # it objects to WELCOME
            self.masters.on_refused(link, frame, now)
            self.drop(link, now)
            return
        self.hang_up(link)
        assert link.wanted is not None
        assert link.kind is not None
        if link.kind is LinkKind.SIGNALLING:
            if link.wanted[0] == self._topology.me.machine:
                self.dialler.redial(now)
                self.refusal = frame
            else:
                self.masters.on_refused(link, frame, now)
        elif (peer := self._topology.peers.get(link.wanted)) is not None:
            if frame.reason is not Reason.DUPLICATE:
                self.on_dial_failed(link.kind, link.wanted, now)
            else:
                peer.dialling = False

    def on_welcome(self, link: Link, frame: Welcome, now: float) -> None:
        """Use a dialled link, unless its peer claims the place of a linked master."""
        if link.kind is LinkKind.SIGNALLING and _is_wanted(link, frame.identity):
            reason = self._claim(link, frame.identity, now)
            if reason is not None:
                self._refuse(link, reason, frame.identity, now)
                return
        self.identify(link, frame, now)

    def identify(self, link: Link, frame: Hello | Welcome, now: float) -> None:
        """Record the identity of the peer; use the link, unless a better one exists."""
        identity = frame.identity
        key = (identity.machine, identity.process)
        if not _is_wanted(link, identity):
            if (wanted := self._topology.peers.get(link.wanted or key)) is not None:
                wanted.addresses = ()  # another process listens there
            raise WireError(f"{key} answers in place of {link.wanted}")
        objected = objection(self._topology, identity, link.credentials)
        if objected is not None:
            self._object(link, objected, identity, now)
            return
        if link.wanted is not None:
            self.masters.on_found_at(link.wanted[0], identity.machine)
        peer = self._relays.peer_for(key, identity.incarnation, now)
        if peer is None:
            self._refuse(link, Reason.DUPLICATE, identity, now)
            return
        link.state = LinkState.OPENING
        if link.kind is LinkKind.SIGNALLING:
            self.dialler.reset_delay()
            self.masters.on_link_made(link, key[0])
        link.identity = identity
        peer.role, peer.machine_id = identity.role, identity.machine_id
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
            peer.set_credentials(link.credentials)
        peer.closing = False
        peer.received_at = peer.pinged_at = now
        peer.ping, peer.round_trip_s = 0, None
        self.on_process_up(peer, identity)
        remembered = self._topology.newest_epoch(peer.name)
        opening = peer.session.attach(link.id, remembered)
        if not link.dialled:
            self._topology.send(link.id, welcome(self._topology))
        self._topology.send(link.id, opening)

    def _object(
        self, link: Link, objected: Objection, identity: Identity, now: float
    ) -> None:
        """Refuse a peer; record and log an objection that its operator must mend."""
        if objected.claim:
            self._topology.complain(objected.claim)
            failure = DialFailure(objected.claim, is_refusal=True)
            self.masters.on_link_failed(link, failure, now)
        self._refuse(link, objected.reason, identity, now)

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

    def on_link_lost(self, number: int, now: float, *, mid_io: bool, why: str) -> None:
        """Handle the loss of a link; see `RemoteManager.on_link_lost`."""
        link = self.by_number.pop(number, None)
        if link is None:
            return
        parted = BusReason.DIED if mid_io else BusReason.LEFT
        if why:
            parted = BusReason.GIVEN_UP
            why = f"the link with {link.peer_name} was closed by the peer: {why}"
            self._topology.complain(why)
        if link.peer is None:
            failure = DialFailure(why or "the link was closed before HELLO's answer")
            self.masters.on_link_failed(link, failure, now)
        self._on_lost(link, now, parted)

    def on_violation(self, link: Link, error: WireError, now: float) -> None:
        """Close a link whose peer violates the protocol (BUS-WIRE-4)."""
        words = Error(reason=Reason.WIRE, text=str(error)[:_WORDS_MAX])
        self._topology.complain(f"the link with {link.peer_name} is closed: {error}")
        self._topology.send(link.id, words)
        self.drop(link, now)

    def drop(self, link: Link, now: float) -> None:
        """Close a useless link, and continue as after its loss."""
        self.hang_up(link)
        self._on_lost(link, now, BusReason.GIVEN_UP)

    def hang_up(self, link: Link) -> None:
        """Close a link, and do nothing else."""
        self.by_number.pop(link.id, None)
        self._topology.todo.append(HangUp(link.id))

    def _on_lost(self, link: Link, now: float, parted: BusReason) -> None:
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
        peer.since = now
        self._topology.await_link(peer)
        peer.session.detach()
        peer.parted = parted
        peer.closing = False
        if link.kind is LinkKind.SIGNALLING:
            if link.wanted is not None and peer.machine == self._topology.me.machine:
                self.dialler.dial()
            else:
                self.masters.on_link_lost(link, peer.machine, now)
        else:
            self._relays.dial(peer)

    def _dial_again(self, kind: LinkKind | None, key: Key, now: float) -> None:
        """Dial again after the loss of a link that was not yet open."""
        if kind is LinkKind.SIGNALLING:
            if key[0] == self._topology.me.machine:
                self.dialler.redial(now)
            else:
                self.masters.redial(key[0], now)
        elif (peer := self._topology.peers.get(key)) is not None:
            peer.dialling = False
            self._relays.dial(peer)

    def on_dial_failed(
        self, kind: LinkKind, key: Key, now: float, failure: DialFailure | None = None
    ) -> None:
        """Declare a peer lost if nothing listens at its address; redial a master.

        failure: the reason, if it is known.
        """
        if kind is LinkKind.SIGNALLING:
            if key[0] == self._topology.me.machine:
                self.dialler.on_dial_failed(now)
                return
            self.masters.on_dial_failed(key[0], failure, now)
            return
        peer = self._topology.peers.get(key)
        if peer is None or not peer.dialling:
            return  # the dial was to an earlier incarnation, lost meanwhile
        peer.dialling = False
        if peer.session.link is None:
            if not peer.bound:
                self._undelivered_messages.fail_unreachable(peer)
            self._topology.lose(peer, now)


def _is_wanted(link: Link, identity: Identity) -> bool:
    """Return True if the peer is the process, or the machine, that was dialled."""
    if link.wanted is None:
        return True
    if link.kind is LinkKind.DATA:
        return link.wanted == (identity.machine, identity.process)
    return is_static(link.wanted[0]) or link.wanted[0] == identity.machine


def _rejection_of(other: Identity, reason: Reason) -> str:
    """Return the line of the log for a rejected process."""
    why = reason.value
    if reason is Reason.DUPLICATE:
        why = (
            "another process of the bus has that name; choose another, or none:"
            " open_bus(process=...)"
        )
    name, pid = f"{other.machine}/{other.process}", other.process_id
    return f"process {name!r} (pid {pid}) is rejected: {why}"
