"""The handshake between processes, and the reasons to refuse a peer (BUS-INIT-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

__all__ = ["handshake", "refusal", "welcome"]


def handshake(topology: Topology, kind: LinkKind) -> Hello:
    """Return the first frame of the process that dialled.

    To the master of its machine it tells where it listens.
    """
    signals = kind is LinkKind.SIGNALLING and not topology.is_master
    return Hello(
        versions=VERSIONS,
        identity=_identity(topology),
        kind=kind,
        message_bytes_max=topology.limits.message_bytes_max,
        inside_address=next(iter(topology.addresses), "") if signals else "",
    )


def welcome(topology: Topology) -> Welcome:
    """Return the answer to a HELLO that is not refused."""
    return Welcome(
        version=VERSIONS[1],
        identity=_identity(topology),
        message_bytes_max=topology.limits.message_bytes_max,
    )


def refusal(  # noqa: PLR0911 # one reason after another
    topology: Topology, frame: Hello
) -> Reason | None:
    """Return the reason to refuse a HELLO; None to accept it."""
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
    if (other.machine, other.process) == (me.machine, me.process):
        return Reason.DUPLICATE  # the name of this process itself
    if other.machine == me.machine:
        if other.machine_id != me.machine_id:
            return Reason.MACHINE_NAME
        return Reason.DUPLICATE if other.role is Role.MASTER else None
    return None if other.role is Role.MASTER else Reason.ACCESS


def _identity(topology: Topology) -> Identity:
    return replace(topology.me, role=topology.role)
