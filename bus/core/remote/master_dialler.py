"""`MasterDialler`: dials the master of its machine, until there is a link with it.

`bus.core.remote.machine_dialler` dials the masters of other machines.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.core.local.actions import Dial
from bus.core.wire import LinkKind

if TYPE_CHECKING:
    from bus.core.remote.topology import Topology
    from bus.core.wire import Identity

__all__ = ["REDIAL_S", "DialFailure", "MasterDialler", "is_static", "jittered"]

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
