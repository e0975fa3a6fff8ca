"""`MasterDialler`: dials the masters of machines, until there is a link with each.

A slave dials the master of its machine. A master dials each static address, and the
masters that it finds: of two that find each other, one waits for the other's link
first (OPEN-20).
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Final

from bus.core.local.actions import Dial
from bus.core.remote.dial_failures import DialFailure, DialFailures
from bus.core.timers import Rank
from bus.core.wire import LinkKind

if TYPE_CHECKING:
    from bus.core.remote.topology import Topology

__all__ = ["MasterDialler", "is_static"]

# First and longest delay between attempts to find a master (BUS-INIT-3). A longer one
# would also delay a process that may become master: it tries that at each attempt.
_REDIAL_S: Final = 0.1
_REDIAL_S_MAX: Final = 0.8
# The longest delay for masters of other machines: each attempt costs a thread and
# perhaps a TLS handshake, and a healed network is to be whole within three seconds.
_REDIAL_OUTSIDE_S_MAX: Final = 2.0
# Each delay is shorter than that by up to this share, so that machines that lost each
# other at the same time do not keep dialling at the same time.
_JITTER: Final = 0.5
# The number of dials of other machines that start at a time. The handshakes of many
# more would compete for the processors, and all time out. A dial without an outcome
# after its turn waits for its peer and takes no processor time: the next one starts.
_DIALS_MAX: Final = 4
_DIAL_TURN_S: Final = 0.5
# How long the side that has accepted a lost link waits for the other side (OPEN-20).
_PATIENCE_S: Final = 3.0


class MasterDialler:
    """The masters that one process dials: where each listens, and when to dial again.

    Each table is keyed by the name of a machine, or by a static address. An address
    contains ``://``, so it is never a name. ``_found_at`` maps a static address to the
    machine that was found there.

    redial_at: when a master is to be dialled again, by machine, in seconds. A dial that
      is due waits for its turn (`_DIALS_MAX`).
    failures: why the last dials failed, by machine.
    found_at: when discovery found a machine, or its restart, in seconds.

    Args:
        master: the addresses on which the master of this machine listens.
        static: known addresses of the masters of other machines.
    """

    __slots__ = (
        "_alarm",
        "_anew",
        "_attempts",
        "_delays",
        "_dialling",
        "_found_at",
        "_machines",
        "_master",
        "_silent",
        "_topology",
        "failures",
        "found_at",
        "redial_at",
    )

    def __init__(
        self, topology: Topology, master: tuple[str, ...], static: tuple[str, ...]
    ) -> None:
        self._topology: Final = topology
        self._alarm: Final = topology.timers.alarm(Rank.DIALS, self._tick)
        self._master: Final = master
        # The addresses on which the masters of other machines listen, by machine.
        self._machines: Final[dict[str, tuple[str, ...]]] = {
            address: (address,) for address in static
        }
        # The machine found at a static address.
        self._found_at: Final[dict[str, str]] = {}
        self.redial_at: Final[dict[str, float]] = {}
        self.failures: Final = DialFailures()
        self.found_at: Final[dict[str, float]] = {}
        self._delays: Final[dict[str, float]] = {}
        # Machines whose master was restarted: a present link does not count.
        self._anew: Final[set[str]] = set()
        # Masters of other machines whose dial has no outcome yet, and when each began.
        self._dialling: Final[dict[str, float]] = {}
        self._attempts: int = 0
        # Machines whose announcements ceased while there was a link, and until when a
        # lost link is dialled again; infinite before the first failure.
        self._silent: Final[dict[str, float]] = {}

    def begin(self, now: float) -> None:
        """Dial the master of this machine or, as master, the static addresses."""
        self.redial_at.clear()  # a new master had to dial the previous one
        if not self._topology.is_master:
            self.dial(self._topology.me.machine, now)
            return
        for key in list(self._machines):
            if is_static(key):
                self.dial(key, now)

    def on_machine_found(
        self,
        machine: str,
        addresses: tuple[str, ...],
        now: float,
        patience_s: float = 0.0,
    ) -> None:
        """Record the addresses of another machine's master, and dial it.

        patience_s: how long to wait for a link that the other side dials, in seconds.
        """
        self._machines[machine] = addresses
        self._silent.pop(machine, None)
        self._delays.pop(machine, None)
        self.found_at[machine] = now
        if not self._topology.is_master:
            return
        if patience_s:
            self._schedule(machine, now + patience_s)
        else:
            self.dial(machine, now)

    def on_machine_restarted(
        self, machine: str, addresses: tuple[str, ...], now: float, patience_s: float
    ) -> None:
        """Dial the new master of a machine; its link replaces the present one.

        The present link ends once the new master has proved its machine (BUS-DISC-8).
        """
        self._anew.add(machine)
        self.on_machine_found(machine, addresses, now, patience_s)

    def on_machine_silent(self, machine: str) -> None:
        """Stop dialling a machine, unless there is a link.

        Its address is kept for the time after the loss of the link: both sides may have
        forgotten each other, and then no announcement would bring them together.
        """
        if self._is_linked(machine):
            self._silent[machine] = math.inf
        else:
            self.on_machine_gone(machine)

    def on_machine_gone(self, machine: str) -> None:
        """Stop dialling a machine; its link, if there is one, stays open."""
        self._silent.pop(machine, None)
        self._machines.pop(machine, None)
        self.redial_at.pop(machine, None)
        self._delays.pop(machine, None)
        self._anew.discard(machine)
        self.found_at.pop(machine, None)
        self.failures.forget(machine)

    def note_failure(self, key: str, failure: DialFailure, now: float) -> None:
        """Record why a dial has failed, unless its machine was forgotten meanwhile."""
        if key in self._machines:
            self.failures.note(key, failure, now)

    def on_found_at(self, key: str, machine: str) -> None:
        """Record the machine at a dialled address, if that is a static one."""
        if not is_static(key):
            return
        if machine == self._topology.me.machine:
            self._machines.pop(key, None)
            self._topology.complain(f"{key} is this machine: it is not dialled")
        else:
            self._found_at[key] = machine

    def forget_found_at(self, key: str) -> None:
        """Forget which machine is at an address: it is not the one that has a link."""
        self._found_at.pop(key, None)

    def on_dialled(self, key: str, now: float) -> None:
        """Note that a dial has made a link, which may be refused yet."""
        self._dialling.pop(key, None)
        self._alarm.by(self._tick(now))  # the next dial may begin

    def on_dial_failed(self, key: str, now: float) -> None:
        """Declare a master lost that no link can reach, and dial it again later."""
        self._dialling.pop(key, None)
        if self._topology.is_master and key == self._topology.me.machine:
            return
        machine = self._found_at.get(key, key)
        # A static address may be stale: another dial to the machine may succeed.
        under_way = {self._found_at.get(each, each) for each in self._dialling}
        if machine not in under_way:
            for peer in self._topology.joined():
                if peer.machine == machine and peer.session.link is None:
                    self._topology.lose(peer, now)
        until = self._silent.get(machine)
        if until == math.inf:
            self._silent[machine] = now + self._topology.limits.lease_s
        elif until is not None and until <= now:
            self.on_machine_gone(machine)
        self.redial(key, now)
        self._alarm.by(self._tick(now))  # the next dial may begin

    def on_twin(self, key: str) -> None:
        """Note that a machine already has a link with this process."""
        self._anew.discard(key)

    def on_accepted_link_lost(self, machine: str, now: float) -> None:
        """Dial a machine later whose lost link it had dialled, unless it dials."""
        if machine in self._machines and machine not in self.redial_at:
            self._schedule(machine, now + _PATIENCE_S)

    def dial(self, key: str, now: float) -> None:
        """Dial the master of a machine, unless there is a link, or a dial under way.

        The master of another machine is dialled later if many dials have just begun.
        """
        own = key == self._topology.me.machine
        if own and self._topology.is_master:
            return
        addresses = self._master if own else self._machines.get(key, ())
        machine = self._found_at.get(key, key)
        wanted = machine in self._anew or not self._is_linked(machine)
        if addresses and wanted and key not in self._dialling:
            if not own:
                if (turn_at := self._turn_at()) > now:
                    self._alarm.by(turn_at)
                    self.redial_at[key] = now
                    return
                self._dialling[key] = now
            self._topology.todo.append(Dial((key, ""), LinkKind.SIGNALLING, addresses))

    def _turn_at(self) -> float:
        """Return when another machine may be dialled, unless a dial ends before."""
        began = sorted(self._dialling.values())[-_DIALS_MAX:]
        return -math.inf if len(began) < _DIALS_MAX else began[0] + _DIAL_TURN_S

    def _is_linked(self, machine: str) -> bool:
        return any(
            peer.machine == machine and peer.session.link is not None
            for peer in self._topology.joined()
        )

    # Time.

    def redial(self, key: str, now: float) -> None:
        """Schedule a dial to a master; each delay is longer than the one before.

        The delays of two machines, or of two attempts, differ (`_JITTER`).
        """
        own = key == self._topology.me.machine
        if not own and key not in self._machines:
            return  # it was forgotten meanwhile
        delay_s = self._delays.get(key, _REDIAL_S)
        self._schedule(key, now + delay_s * (1 - _JITTER * self._share(key)))
        most_s = _REDIAL_S_MAX if own else _REDIAL_OUTSIDE_S_MAX
        self._delays[key] = min(2 * delay_s, most_s)

    def _schedule(self, key: str, at: float) -> None:
        self._alarm.by(at)
        self.redial_at[key] = at

    def _share(self, key: str) -> float:
        """Return a number from 0 to 1, another one for each process and each call."""
        self._attempts += 1
        me = self._topology.me
        words = f"{me.machine} {me.process} {me.incarnation} {key} {self._attempts}"
        return zlib.crc32(words.encode()) / (2**32 - 1)

    def redial_lost(self, machine: str, now: float) -> None:
        """Schedule a dial to a lost master, unless one is scheduled."""
        if machine not in self.redial_at:
            self.redial(machine, now)

    def redial_static(self, machine: str, now: float) -> None:
        """Schedule dials to the static addresses at which a machine was found.

        Another address may lead there still, and the other side may not know where this
        machine is.
        """
        for address in self.static_addresses_of(machine):
            self.redial(address, now)

    def static_addresses_of(self, machine: str) -> list[str]:
        """Return the static addresses at which a machine was found."""
        return [each for each, found in self._found_at.items() if found == machine]

    def targets(self) -> list[str]:
        """Return the machines that are dialled; a static address stands for itself."""
        return list(self._machines)

    def address_of(self, key: str) -> str:
        """Return the first address of one of the `targets`."""
        return self._machines[key][0]

    def machine_at(self, key: str) -> str | None:
        """Return the machine of a key of `targets`; None if it is not known yet."""
        return self._found_at.get(key) if is_static(key) else key

    def reset_delay(self, key: str) -> None:
        """Make the next delay the shortest one, since there is a new link."""
        self._delays.pop(key, None)
        self._anew.discard(key)
        self.failures.forget(key)
        for address in self.static_addresses_of(key):
            self.failures.forget(address)

    def _tick(self, now: float) -> float | None:
        """Dial the masters that are due, while it is their turn: the first due first.

        Of those that have waited equally long, the order is that of their entry.
        """
        due = [each for each in self.redial_at.items() if each[1] <= now]
        for key, _ in sorted(due, key=lambda each: each[1]):
            if self._turn_at() > now:
                break
            del self.redial_at[key]
            self.dial(key, now)
        if not self.redial_at:
            return None
        return max(min(self.redial_at.values()), self._turn_at())


def is_static(key: str) -> bool:
    """Return True for a static address in the place of a machine's name."""
    return "://" in key
