"""`MasterDialler`: dials the master of its machine, until there is a link with it.

`Masters` is the slot for the masters of other machines.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.kernel.tasks.actions import Dial
from bus.kernel.wire import LinkKind, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.kernel.links.link import Link
    from bus.kernel.tasks.actions import Action
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Identity, Refused
    from bus.model.snapshot import MachineInfo

__all__ = [
    "REDIAL_S",
    "DialFailure",
    "MasterDialler",
    "Masters",
    "is_static",
    "jittered",
]

# First and longest delay between attempts to find a master (BUS-INIT-3). A longer one
# would also delay a process that may become master: it tries that at each attempt.
REDIAL_S: Final = 0.1
_REDIAL_S_MAX: Final = 0.8
# Each delay is shorter than that by up to this share, so that processes that lost a
# link at the same time do not keep dialling at the same time.
_JITTER: Final = 0.5


class DialFailure(Struct, frozen=True):
    """The failure of one dial.

    why: the reason, in the words of the log.
    is_refusal: True if one of the two processes does not admit the other; False if
      there was no answer.
    """

    why: str
    is_refusal: bool = False


class MasterDialler:
    """The dials of a slave to the master of its machine.

    redial_at: when the master is to be dialled again, in seconds; None for no dial.

    Args:
        addresses: the addresses on which the master listens.
    """

    __slots__ = (
        "_addresses",
        "_alarm",
        "_attempts",
        "_delay_s",
        "_topology",
        "redial_at",
    )

    def __init__(self, topology: Topology, addresses: tuple[str, ...]) -> None:
        self._topology: Final = topology
        self._addresses: Final = addresses
        self._alarm: Final = topology.timers.alarm(self._tick)
        self._attempts: int = 0
        self._delay_s: float = REDIAL_S
        self.redial_at: float | None = None

    def dial(self) -> None:
        """Dial the master, unless this process is the master, or has a link with it."""
        topology = self._topology
        master = topology.master()
        linked = master is not None and master.session.link is not None
        if not (topology.is_master or linked):
            key = (topology.me.machine, "")
            topology.todo.append(Dial(key, LinkKind.SIGNALLING, self._addresses))

    def on_dial_failed(self, now: float) -> None:
        """Declare the master lost if no link reaches it, and dial again later."""
        if self._topology.is_master:
            return
        master = self._topology.master()
        if master is not None and master.session.link is None:
            self._topology.lose(master, now)
        self.redial(now)

    def redial(self, now: float) -> None:
        """Schedule a dial; each delay is longer than the one before."""
        self._attempts += 1
        me = self._topology.me
        at = now + jittered(self._delay_s, me, me.machine, self._attempts)
        self._alarm.by(at)
        self.redial_at = at
        self._delay_s = min(2 * self._delay_s, _REDIAL_S_MAX)

    def redial_lost(self, now: float) -> None:
        """Schedule a dial to the lost master, unless one is scheduled."""
        if self.redial_at is None:
            self.redial(now)

    def reset_delay(self) -> None:
        """Make the next delay the shortest one, since there is a new link."""
        self._delay_s = REDIAL_S

    def _tick(self, now: float) -> float | None:
        if self.redial_at is not None and self.redial_at <= now:
            self.redial_at = None
            self.dial()
        return self.redial_at


class Masters:
    """A slot of the `LinkTable`: the links with the masters of other machines.

    This null object dials none and admits none. A key is the name of a machine, or a
    static address.
    """

    __slots__ = ()

    def begin(self, now: float) -> None:
        """Dial the static addresses, if this process is master."""

    def on_found(
        self,
        _machine: str,
        _addresses: tuple[str, ...],
        _now: float,
        _patience_s: float = 0.0,
    ) -> list[Action]:
        """Handle the addresses of the master of another machine.

        patience_s: how long to wait for a link that the other side dials, in seconds.
        """
        return []

    def known(self, _now: float) -> list[MachineInfo]:
        """Return the other machines that a master knows (BUS-DISC-13)."""
        return []

    def ignored_announcements(self) -> Mapping[str, int]:
        """Return the number of ignored announcements, by reason (BUS-DISC-11).

        Any thread may call this.
        """
        return {}

    # Dials.

    def on_dialled(self, key: str, proved: str | None, now: float) -> None:
        """Note that a dial has made a link, which may be refused yet.

        proved: the machine that the credentials prove; None if they prove none.
        """

    def on_found_at(self, key: str, machine: str) -> None:
        """Record the machine at a dialled address, if that is a static one."""

    def on_dial_failed(self, key: str, failure: DialFailure | None, now: float) -> None:
        """Declare a master lost that no link can reach, and dial it again later."""

    def redial(self, key: str, now: float) -> None:
        """Schedule a dial to a master; each delay is longer than the one before."""

    # Links.

    def on_claim(self, _identity: Identity, _now: float) -> Reason | None:
        """Return the reason to refuse a master that may join; None to admit it."""
        return Reason.ACCESS

    def on_refused(self, link: Link, frame: Refused, now: float) -> None:
        """Handle the REFUSED of a master, which answers HELLO or WELCOME."""

    def on_rejected(
        self, _link: Link, _reason: Reason, _namesake: str, _now: float
    ) -> str:
        """Report a conflict of names; dial again later if the link was dialled.

        namesake: the name that the peer has in common with another machine; "" if this
          process rejects it for another reason.

        Returns the address of that other machine; "" if it is unknown, or this one.
        """
        return ""

    def on_link_failed(self, link: Link, failure: DialFailure, now: float) -> None:
        """Record why the link with a dialled master does not open."""

    def on_link_made(self, link: Link, machine: str) -> None:
        """Forget the failures and the delays of a machine, since there is a link."""

    def on_link_lost(self, link: Link, machine: str, now: float) -> None:
        """Dial a machine again; later, if the machine had dialled the lost link."""


def jittered(delay_s: float, me: Identity, key: str, attempt: int) -> float:
    """Return a delay shortened by a share that each process and attempt draws anew.

    key: of the master to dial. attempt: the number of the attempt of this process.
    """
    words = f"{me.machine} {me.process} {me.incarnation} {key} {attempt}"
    share = zlib.crc32(words.encode()) / (2**32 - 1)  # from 0 to 1
    return delay_s * (1 - _JITTER * share)


def is_static(key: str) -> bool:
    """Return True for a static address in the place of a machine's name."""
    return "://" in key
