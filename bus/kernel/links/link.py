"""`Link`: one link to another process, from the handshake to its end.

The tables here list every state, and the frames that may arrive in it. Other modules
decide what the frames mean.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from bus.errors import VersionMismatchError, WireError
from bus.kernel.wire import (
    VERSIONS,
    FrameType,
    Hello,
    LinkKind,
    Reason,
    Role,
    Welcome,
    negotiate,
)
from bus.model.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.kernel.peer.peer import Peer
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Identity
    from bus.model.registration import Key
    from bus.model.rights import Credentials

__all__ = [
    "NEXT",
    "Link",
    "LinkState",
    "Objection",
    "handshake",
    "needs_no_link",
    "objection",
    "refusal",
    "welcome",
]


class Objection(NamedTuple):
    """Why a peer gets no link although its HELLO or WELCOME is well-formed.

    claim: the line for the log if the peer claims an identity that its credentials
      contradict; else "".
    """

    reason: Reason
    claim: str = ""


def handshake(topology: Topology, kind: LinkKind) -> Hello:
    """Return the first frame of the process that dialled.

    To the master of its machine it tells where it listens.
    """
    signals = kind is LinkKind.SIGNALLING and not topology.is_master
    return Hello(
        versions=VERSIONS,
        identity=_identity(topology),
        kind=kind,
        message_bytes_max=topology.config.message_bytes_max,
        inside_address=next(iter(topology.addresses), "") if signals else "",
    )


def welcome(topology: Topology) -> Welcome:
    """Return the answer to a HELLO that is not refused."""
    return Welcome(
        version=VERSIONS[1],
        identity=_identity(topology),
        message_bytes_max=topology.config.message_bytes_max,
    )


def refusal(  # noqa: PLR0911 # one reason after another
    topology: Topology, frame: Hello, credentials: Credentials
) -> Reason | None:
    """Return the reason to refuse a HELLO; None to accept it.

    credentials: as its connection proves them.
    """
    other, me = frame.identity, topology.me
    if other.bus != me.bus:
        return Reason.BUS
    try:
        negotiate(VERSIONS, frame.versions)
    except VersionMismatchError:
        return Reason.VERSION
    if frame.kind is not LinkKind.SIGNALLING:
        return None
    if not topology.is_master:
        return Reason.BUSY  # another process is the master
    if _is_namesake(topology, other, credentials):
        return Reason.MACHINE_NAME
    if (other.machine, other.process) == (me.machine, me.process):
        return Reason.DUPLICATE  # the name of this process itself
    if other.machine == me.machine:
        if other.machine_id != me.machine_id:
            return Reason.MACHINE_NAME
        return Reason.DUPLICATE if other.role is Role.MASTER else None
    return None if other.role is Role.MASTER else Reason.ACCESS


def objection(
    topology: Topology, identity: Identity, credentials: Credentials
) -> Objection | None:
    """Return why a peer is not what it claims to be, or may not join; None if it may.

    identity: as its handshake states it. credentials: as its connection proves them.
    """
    proved = credentials.machine
    if proved not in {None, identity.machine}:
        claim = f"machine {proved} claims to be {identity.machine} (BUS-SEC-5)"
        return Objection(Reason.ACCESS, claim)
    if credentials.outside and identity.machine == topology.me.machine:
        claim = "a process of this machine came by the network"
        return Objection(Reason.ACCESS, claim)
    if not _may_join(topology, identity, credentials):
        return Objection(Reason.ACCESS)
    if _is_other_machine(topology, identity):
        return Objection(Reason.MACHINE_NAME)
    present = topology.peers.get((identity.machine, identity.process))
    if present is not None and present.is_other(credentials):
        return Objection(Reason.DUPLICATE)
    return None


def needs_no_link(
    topology: Topology, identity: Identity, credentials: Credentials
) -> bool:
    """Return True if a known process dials that needs no link (BUS-SEC-10).

    It is a process of another machine that has a link, since masters dial each other
    and may do so at the same time; or this process itself, at one of its own addresses,
    which the dialling side logs. Neither is a conflict, unless the peer only claims
    that identity.

    identity, credentials: as for `objection`.
    """
    me = topology.me
    if identity.machine == me.machine:
        return (
            (identity.process, identity.incarnation) == (me.process, me.incarnation)
            and credentials.outside
            and credentials.machine in {None, me.machine}
        )
    peer = topology.peers.get((identity.machine, identity.process))
    return (
        peer is not None
        and peer.session.incarnation == identity.incarnation
        and peer.machine_id == identity.machine_id
        and objection(topology, identity, credentials) is None
    )


def _may_join(topology: Topology, identity: Identity, credentials: Credentials) -> bool:
    """Return True for a peer with all rights, or a slave of this machine.

    A master acts for other processes and is trusted, so it needs all rights
    (BUS-SEC-1).
    """
    if credentials.rights.whole:
        return True
    own = identity.machine == topology.me.machine
    return own and identity.role is Role.SLAVE


def _is_namesake(topology: Topology, other: Identity, credentials: Credentials) -> bool:
    """Return True for the master of another machine with the name of this one.

    The only process of this machine that connects by the network is this master itself,
    at one of its own addresses. The ids of the machines are not compared: a cloned
    machine has the id of the original (BUS-DISC-8).
    """
    me = topology.me
    itself = (me.machine_id, me.process, me.process_id, me.incarnation)
    if not credentials.outside or credentials.machine not in {None, me.machine}:
        return False
    return (
        other.machine == me.machine
        and other.role is Role.MASTER
        and (other.machine_id, other.process, other.process_id, other.incarnation)
        != itself
    )


def _is_other_machine(topology: Topology, identity: Identity) -> bool:
    """Return True if another machine of that name has a link (BUS-DISC-8)."""
    return any(
        each.machine == identity.machine
        and each.session.link is not None
        and each.machine_id not in {"", identity.machine_id}
        for each in topology.joined()
    )


def _identity(topology: Topology) -> Identity:
    return replace(topology.me, role=topology.role)


class LinkState(enum.Enum):
    """The progress of the handshake between the two ends."""

    DIALLED = "dialled"  # HELLO was sent
    ACCEPTED = "accepted"  # no frame has arrived
    OPENING = "opening"  # both identities are known, and OPEN_STREAM was sent
    OPEN = "open"


_ANY_LINK: Final = (
    *(FrameType.ADD_RELAY, FrameType.UNRELAY, FrameType.MSG, FrameType.ACK),
    *(FrameType.OFFER_SLAB, FrameType.SLAB_ANSWER, FrameType.CLOSE_SLAB),
    *(FrameType.RELEASE, FrameType.CONNECT_OFFER),
    *(FrameType.DISMISS, FrameType.DISMISSED, FrameType.GAP),
    *(FrameType.ERROR, FrameType.PING, FrameType.PONG, FrameType.BYE),
)
# Frames about other processes travel on signalling links alone (BUS-ENT-12).
_SIGNALLING: Final = (
    *(FrameType.EXPORT, FrameType.UNEXPORT, FrameType.SEARCH, FrameType.CANCEL),
    *(FrameType.ELIMINATE, FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE),
)

# The next state of a link, by its state and the frame that arrives. A pair that is
# missing is a violation.
NEXT: Final[Mapping[tuple[LinkState, FrameType], LinkState | None]] = MappingProxyType(
    {
        (LinkState.DIALLED, FrameType.WELCOME): LinkState.OPENING,
        (LinkState.DIALLED, FrameType.REFUSED): None,
        (LinkState.ACCEPTED, FrameType.HELLO): LinkState.OPENING,
        (LinkState.OPENING, FrameType.OPEN_STREAM): LinkState.OPEN,
        # From a dialling side that objects to the machine of WELCOME (BUS-DISC-8).
        (LinkState.OPENING, FrameType.REFUSED): None,
        **{
            (LinkState.OPEN, each): LinkState.OPEN
            for each in (*_ANY_LINK, *_SIGNALLING)
        },
    }
)


class Link:
    """One end of a link.

    id: the number that the driver assigned.
    kind: its purpose; None until the peer has named it.
    dialled: True if this process dialled it.
    wanted: the process that was dialled, with an empty name for the master of a
      machine; None if the other end dialled.
    since: when it was made, in seconds.
    peer: the process at the other end, once it is known.
    credentials: those that the operating system reports of the peer, with its rights.
    """

    __slots__ = (
        "credentials",
        "dialled",
        "id",
        "identity",
        "kind",
        "peer",
        "since",
        "state",
        "wanted",
    )

    def __init__(
        self,
        number: int,
        kind: LinkKind | None,
        now: float,
        wanted: Key | None = None,
        *,
        credentials: Credentials = UNRESTRICTED,
    ) -> None:
        self.id: Final = number
        self.kind = kind
        self.dialled: Final = kind is not None
        self.wanted: Final = wanted
        self.since: Final = now
        self.identity: Identity | None = None
        self.state: LinkState = (
            LinkState.DIALLED if self.dialled else LinkState.ACCEPTED
        )
        self.peer: Peer | None = None
        self.credentials: Final = credentials

    @property
    def peer_name(self) -> str:
        """The name of the process at the other end; preferably as it states it."""
        if self.identity is not None:
            return f"{self.identity.machine}/{self.identity.process}"
        if self.wanted is not None:
            return "/".join(self.wanted)
        return "an unidentified peer"

    def step(self, kind: FrameType) -> None:
        """Advance to the next state on the arrival of a frame.

        Raises:
            WireError: the frame may not arrive now, or not on such a link; the state is
              kept.
        """
        known = (self.state, kind) in NEXT
        wrong = kind in _SIGNALLING and self.kind is LinkKind.DATA
        if not known or wrong:
            which = "link" if self.kind is None else f"{self.kind.value} link"
            msg = f"{kind.name} is not allowed on a {which} that is {self.state.value}"
            raise WireError(msg)
        self.state = NEXT[self.state, kind] or self.state

    def beats(self, other: Link, *, ours: bool) -> bool:
        """Return True if this link is kept, and ``other``, to the same process, closed.

        ours: True if this process is the lower of the two.

        Both sides get the same result. A signalling link beats a data link. Between two
        of a kind, the link that the lower process dialled is kept. If one side dialled
        both, the newer is kept, since that side knows that the older is lost.
        """
        if self.kind is not other.kind:
            return self.kind is LinkKind.SIGNALLING
        if self.dialled is not other.dialled:
            return self.dialled is ours
        return self.id >= other.id
