"""The handshake between processes, and the reasons to refuse a peer (BUS-INIT-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from bus.core.wire import (
    VERSIONS,
    Hello,
    LinkKind,
    Reason,
    Role,
    Welcome,
    negotiate,
)
from bus.errors import VersionMismatchError

if TYPE_CHECKING:
    from bus.core.remote.topology import Topology
    from bus.core.wire import Identity
    from bus.rights import Credentials

__all__ = ["Objection", "handshake", "needs_no_link", "objection", "refusal", "welcome"]


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
