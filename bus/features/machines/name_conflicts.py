"""`NameConflicts`: machines that have one name, as one master sees them (BUS-DISC-8).

The machine that has a link keeps it, and the other one gets none. If both have the same
id, the other one may also be the same machine after a restart, whose former link is not
yet known to be lost. So the linked master is tested first: a PING that it answers
proves that both are alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.kernel.wire import Ping, Reason

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Identity

__all__ = ["REMEDY", "NameConflict", "NameConflicts"]

REMEDY: Final = (
    "give each machine its own name with open_bus(machine=...); a cloned machine also "
    "needs its own /etc/machine-id and keys"
)
# How long a conflict is reported after it was last noticed. A machine that gets no link
# dials again after a few seconds.
_NOTICED_S: Final = 60.0
# How long a linked master has to answer the PING, in seconds. A machine that was
# restarted after a power cut waits that long for its link.
_ANSWER_S: Final = 1.0
# Bounds, since every member of the bus can invent names: the oldest goes first.
_CONFLICTS_MAX: Final = 64
_CLAIMS_MAX: Final = 64


class NameConflict(Struct):
    """Two machines of one name.

    address: of the machine that has no link with this one: where its master listens, or
      the host from which it has dialled; "" if neither is known.
    holder: the other machine of that name, in words.
    since, until: when it was first noticed, and until when it is reported, in seconds.
    """

    name: str
    address: str
    holder: str
    since: float
    until: float


class _Claim(Struct):
    """The claim of a master to the place of a linked one.

    ping: the number of the PING that the linked one is to answer.
    at: when that was sent, in seconds.
    """

    ping: int
    at: float
    answered: bool = False


class NameConflicts:
    """The name conflicts that one master has noticed; bounded."""

    __slots__ = ("_claims", "_found", "_topology")

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self._found: Final[dict[tuple[str, str], NameConflict]] = {}
        # By the linked process and the process that claims its place.
        self._claims: Final[dict[tuple[object, ...], _Claim]] = {}

    # The two machines.

    def on_claim(self, identity: Identity, now: float) -> Reason | None:
        """Return the reason to keep the link of another master of that name instead.

        BUSY until the linked one has proved to be alive or not: the peer dials again
        soon. None if no other process of that machine has a link, or none that answers.
        """
        rival = self.linked(identity.machine)
        life = (identity.process, identity.incarnation)
        if rival is None or (rival.key[1], rival.session.incarnation) == life:
            return None
        session = rival.session
        if not session.ready:
            # No PING reaches it, but its link may be about to open.
            opens = now - rival.received_at < _ANSWER_S
            return Reason.BUSY if opens else None
        # A PING is not repeated on another link.
        key = (*rival.key, session.incarnation, session.link, *life)
        claim = self._claims.get(key)
        if claim is None or claim.answered:
            self._claims[key] = _Claim(self._topology.new_ping(), now)
            if len(self._claims) > _CLAIMS_MAX:
                del self._claims[next(iter(self._claims))]
            rival.session.send_link_frame(Ping(number=self._claims[key].ping))
            return Reason.BUSY if claim is None else Reason.MACHINE_NAME
        if now - claim.at < _ANSWER_S:
            return Reason.BUSY
        del self._claims[key]
        return None

    def on_pong(self, peer: Peer, number: int, _: float) -> None:
        """Note that a linked master is alive, if it answers the PING of a claim."""
        for key, claim in self._claims.items():
            if claim.ping == number and key[:2] == peer.key:
                claim.answered = True

    def linked(self, machine: str) -> Peer | None:
        """Return the master of another machine that has a link; None if none has."""
        return next(
            (
                each
                for each in self._topology.joined()
                if each.machine == machine and each.session.link is not None
            ),
            None,
        )

    # Reports.

    def note_own(self, address: str, now: float, lasts_s: float = _NOTICED_S) -> None:
        """Note that another machine has the name of this one; log it once.

        address: of the other one; "" if it is not known.
        lasts_s: how long it is reported, in seconds, unless it is noted again.
        """
        outside = [each for each in self._topology.outside() if "ipc://" not in each]
        where = f" at {outside[0]}" if outside else ""
        name = self._topology.me.machine
        self.note(name, address, f"this machine{where}", now, lasts_s)

    def note(
        self,
        name: str,
        address: str,
        holder: str,
        now: float,
        lasts_s: float = _NOTICED_S,
    ) -> None:
        """Note two machines of one name; log it once for each name.

        address: as `NameConflict` has it. holder: as for `note_own`.
        """
        if not any(each.name == name for each in self.present(now)):
            other = f"the one at {address}" if address else "one at an unknown address"
            self._topology.complain(
                f"two machines are named {name!r}: {holder} and {other}: {REMEDY} "
                "(BUS-DISC-8)"
            )
        since = now
        for each in self.present(now):
            # A machine that dials is known by its host, until its address is known.
            if each.name == name and _host(each.address) == _host(address):
                if each.address == address or "://" not in address:
                    each.holder = holder
                    each.until = max(each.until, now + lasts_s)
                    return
                if "://" not in each.address:
                    since = self._found.pop((name, each.address)).since
        found = NameConflict(name, address, holder, since, now + lasts_s)
        self._found[name, address] = found
        if len(self._found) > _CONFLICTS_MAX:
            del self._found[next(iter(self._found))]

    def end(self, name: str, address: str) -> None:
        """Remove the conflict of a machine that has the name now."""
        self._found.pop((name, address), None)

    def present(self, now: float) -> list[NameConflict]:
        """Return the conflicts that were noticed lately."""
        for key, each in list(self._found.items()):
            if each.until <= now:
                del self._found[key]
        return list(self._found.values())


def _host(address: str) -> str:
    """Return the host of an address; the address itself if it is a host."""
    if "://" not in address:
        return address
    return address.partition("://")[2].rpartition(":")[0].strip("[]")
