"""`MachineDialler`: dials the masters of other machines, until there are links.

A master dials each static address, and the masters that it finds: of two that find each
other, one waits for the other's link first (OPEN-20). It reports these machines, and
those that have dialled it (BUS-DISC-13).
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from bus.features.machines.machine_table import CONFLICTS_S, Change
from bus.features.machines.name_conflicts import REMEDY, NameConflicts
from bus.kernel.hooks import Hooks, Row
from bus.kernel.links.master_dialler import (
    REDIAL_S,
    DialFailure,
    Masters,
    is_static,
    jittered,
)
from bus.kernel.tasks.actions import Dial
from bus.kernel.wire import Error, LinkKind, Reason
from bus.model.snapshot import MachineInfo, MachineState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bus.features.machines.discovery import Event
    from bus.features.machines.machine_table import Machine
    from bus.features.machines.name_conflicts import NameConflict
    from bus.kernel.links.link import Link
    from bus.kernel.peer.peer import Peer
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.actions import Action
    from bus.kernel.wire import Identity, Refused

__all__ = ["DialFailures", "MachineDialler"]

# The longest delay for masters of other machines: each attempt costs a thread and
# perhaps a TLS handshake, and a healed network is to be whole within three seconds.
_REDIAL_S_MAX: Final = 2.0
# The number of dials of other machines that start at a time. The handshakes of many
# more would compete for the processors, and all time out. A dial without an outcome
# after its turn waits for its peer and takes no processor time: the next one starts.
_DIALS_MAX: Final = 4
_DIAL_TURN_S: Final = 0.5
# How long the side that has accepted a lost link waits for the other side (OPEN-20).
_PATIENCE_S: Final = 3.0


class DialFailures:
    """The last failure to reach each master since its last link, by key of its dial."""

    __slots__ = ("_first_at", "_last")

    def __init__(self) -> None:
        # Each with its time in seconds.
        self._last: Final[dict[str, tuple[float, DialFailure]]] = {}
        # The time, in seconds, of the first failure since the last link.
        self._first_at: Final[dict[str, float]] = {}

    def note(self, key: str, failure: DialFailure, now: float) -> None:
        """Record a failure; ``now`` is in seconds."""
        self._last[key] = now, failure
        self._first_at.setdefault(key, now)

    def forget(self, key: str) -> None:
        """Forget the failures: there is a link, or the master is dialled no more."""
        self._last.pop(key, None)
        self._first_at.pop(key, None)

    def last(self, keys: Iterable[str]) -> list[DialFailure]:
        """Return the last failure of each key that has one, the latest at the end."""
        known = [self._last[key] for key in keys if key in self._last]
        return [failure for _, failure in sorted(known, key=itemgetter(0))]

    def first_at(self, key: str) -> float | None:
        """Return when the first one happened, in seconds; None if none is known."""
        return self._first_at.get(key)


class MachineDialler(Masters):
    """The masters of other machines that a master dials, and when it dials them again.

    Each table is keyed by the name of a machine, or by a static address. An address
    contains ``://``, so it is never a name. ``_found_at`` maps a static address to the
    machine that was found there.

    conflicts: the machines that have one name.
    redial_at: when a master is to be dialled again, by machine, in seconds. A dial that
      is due waits for its turn (`_DIALS_MAX`).
    failures: why the last dials failed, by machine.
    found_at: when discovery found a machine, or its restart, in seconds.
    ignored: see `ignored_announcements`; that of the discovery, if there is one.

    Args:
        static: known addresses of the masters of other machines.
    """

    __slots__ = (
        "_alarm",
        "_anew",
        "_attempts",
        "_delays",
        "_dialling",
        "_found_at",
        "_links",
        "_machines",
        "_silent",
        "_topology",
        "conflicts",
        "failures",
        "found_at",
        "ignored",
        "redial_at",
    )

    def __init__(self, remote: RemoteManager, static: tuple[str, ...]) -> None:
        topology = remote.topology
        self._topology: Final = topology
        self._links: Final = remote.links
        self._alarm: Final = topology.timers.alarm(self._tick)
        self.conflicts: Final = NameConflicts(topology)
        # The addresses on which the masters of other machines listen, by machine.
        self._machines: Final[dict[str, tuple[str, ...]]] = {
            address: (address,) for address in static
        }
        # The machine found at a static address.
        self._found_at: Final[dict[str, str]] = {}
        self.redial_at: Final[dict[str, float]] = {}
        self.failures: Final = DialFailures()
        self.found_at: Final[dict[str, float]] = {}
        self.ignored: Callable[[], Mapping[str, int]] = dict
        self._delays: Final[dict[str, float]] = {}
        # Machines whose master was restarted: a present link does not count.
        self._anew: Final[set[str]] = set()
        # Masters of other machines whose dial has no outcome yet, and when each began.
        self._dialling: Final[dict[str, float]] = {}
        self._attempts: int = 0
        # Machines whose announcements ceased while there was a link, and until when a
        # lost link is dialled again; infinite before the first failure.
        self._silent: Final[dict[str, float]] = {}

    def hooks(self) -> Hooks:
        """Fill the slot; return what the remote manager calls."""
        self._links.masters = self
        conflict = Row(Reason.MACHINE_NAME, self.on_conflict_reported, counted=False)
        return Hooks(frames=(conflict,), on_pong=(self.conflicts.on_pong,))

    def begin(self, now: float) -> None:
        if self._topology.is_master:
            for key in list(self._machines):
                if is_static(key):
                    self.dial(key, now)

    # Machines that are found, or gone.

    def on_event(self, event: Event, now: float) -> list[Action]:
        """Handle a change of the known machines."""
        machine = event.machine
        match event.change:
            case Change.FOUND:
                self.conflicts.end(machine.name, machine.address)
                self.on_machine_found(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.RESTARTED:
                self.on_machine_restarted(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.CONFLICT:
                self._on_conflict(machine, now)
            case Change.SILENT:
                self.on_machine_silent(machine.name)
            case _:  # Change.LEFT
                self.on_machine_gone(machine.name)
        return self._topology.take_actions()

    def on_found(
        self,
        machine: str,
        addresses: tuple[str, ...],
        now: float,
        patience_s: float = 0.0,
    ) -> list[Action]:
        self.on_machine_found(machine, addresses, now, patience_s)
        return self._topology.take_actions()

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
        if self.conflicts.linked(machine) is None:
            self.on_machine_gone(machine)
        else:
            self._silent[machine] = math.inf

    def on_machine_gone(self, machine: str) -> None:
        """Stop dialling a machine; its link, if there is one, stays open."""
        self._silent.pop(machine, None)
        self._machines.pop(machine, None)
        self.redial_at.pop(machine, None)
        self._delays.pop(machine, None)
        self._anew.discard(machine)
        self.found_at.pop(machine, None)
        self.failures.forget(machine)

    def _on_conflict(self, machine: Machine, now: float) -> None:
        """Record that two machines have one name; called again while that lasts."""
        name, address, lasts_s = machine.name, machine.address, 2 * CONFLICTS_S
        if name == self._topology.me.machine:
            self.conflicts.note_own(address, now, lasts_s)
            return
        known = name in self._machines
        where = f" at {self._address_of(name)}" if known else ", found earlier,"
        self.conflicts.note(name, address, f"the one{where}", now, lasts_s)

    # Claims and refusals.

    def on_claim(self, identity: Identity, now: float) -> Reason | None:
        return self.conflicts.on_claim(identity, now)

    def _on_namesake(self, link: Link, name: str, now: float) -> str:
        """Report that the peer of a link has the name of another machine.

        Returns the address of that other machine; "" if it is this one.
        """
        address = self._address(link)
        if name == self._topology.me.machine:
            self.conflicts.note_own(address, now)
            return ""
        holder = self.conflicts.linked(name)
        where = ""
        if holder is not None:
            where = self._address(self._links.by_number[holder.session.link or 0])
            error = Error(reason=Reason.MACHINE_NAME, text=address)
            holder.session.send_link_frame(error)
        at = f" at {where}" if where else ""
        linked = f"the one{at}, which has the link,"
        self.conflicts.note(name, address, linked, now)
        return where

    def on_conflict_reported(
        self, peer: Peer, frame: Error | Refused, now: float
    ) -> None:
        """Record that the master of another machine knows two of this machine's name.

        Its text is the address of the other one; "" if the peer does not know it.
        """
        if self._topology.is_master and peer.machine != self._topology.me.machine:
            self.conflicts.note_own(frame.text, now)

    def on_refused(self, link: Link, frame: Refused, now: float) -> None:
        if link.peer is not None:  # it objects to WELCOME
            if frame.reason is Reason.MACHINE_NAME:
                self.on_conflict_reported(link.peer, frame, now)
            return
        assert link.wanted is not None
        key, me = link.wanted[0], self._topology.me.machine
        self.redial(key, now)
        why = f"{key} refuses this process: {frame.reason.value}"
        if frame.reason is Reason.DUPLICATE:
            self._anew.discard(key)  # the machine has a link with this process
            # Both sides have dialled. Without a certificate, the frame tells that the
            # other link leads to the same machine.
            if frame.machine and link.credentials.machine in {None, me}:
                self.on_found_at(key, frame.machine)
        elif frame.reason is Reason.MACHINE_NAME:
            # Another machine has the name of this one (BUS-DISC-8). It is at the
            # dialled address, or the machine there has a link with it.
            if frame.machine == me:
                self.conflicts.note_own(self._address(link), now)
            else:
                self.conflicts.note_own(frame.text, now)
                self._note_failure(key, DialFailure(why, is_refusal=True), now)
        elif frame.reason is not Reason.BUSY:
            self._topology.complain(why)
            self._note_failure(key, DialFailure(why, is_refusal=True), now)

    def on_rejected(self, link: Link, reason: Reason, namesake: str, now: float) -> str:
        where = self._on_namesake(link, namesake, now) if namesake else ""
        if link.wanted is not None and link.kind is LinkKind.SIGNALLING:
            key = link.wanted[0]
            if namesake:
                self._anew.discard(key)
            if namesake or reason is Reason.BUSY:
                self._found_at.pop(key, None)  # it is not the machine that has a link
            if is_static(key) or reason is Reason.BUSY:
                self.redial(key, now)  # the machine there may change
        return where

    def _address(self, link: Link) -> str:
        """Return the address that was dialled, or the host that has dialled."""
        if link.wanted is not None:
            return self._address_of(link.wanted[0])
        return link.credentials.host

    # Links.

    def on_link_failed(self, link: Link, failure: DialFailure, now: float) -> None:
        if link.wanted is not None and link.kind is LinkKind.SIGNALLING:
            self._note_failure(link.wanted[0], failure, now)

    def _note_failure(self, key: str, failure: DialFailure, now: float) -> None:
        """Record why a dial has failed, unless its machine was forgotten meanwhile."""
        if key in self._machines:
            self.failures.note(key, failure, now)

    def on_found_at(self, key: str, machine: str) -> None:
        if not is_static(key):
            return
        if machine == self._topology.me.machine:
            self._machines.pop(key, None)
            self._topology.complain(f"{key} is this machine: it is not dialled")
        else:
            self._found_at[key] = machine

    def on_dialled(self, key: str, proved: str | None, now: float) -> None:
        self._dialling.pop(key, None)
        self._alarm.by(self._tick(now))  # the next dial may begin
        # A machine with the name of this one may be this one: its answer shows that.
        if proved is not None and proved != self._topology.me.machine:
            self.on_found_at(key, proved)

    def on_dial_failed(self, key: str, failure: DialFailure | None, now: float) -> None:
        if failure is not None:
            self._note_failure(key, failure, now)
        self._dialling.pop(key, None)
        machine = self._found_at.get(key, key)
        # A static address may be stale: another dial to the machine may succeed.
        under_way = {self._found_at.get(each, each) for each in self._dialling}
        if machine not in under_way:
            for peer in self._topology.joined():
                if peer.machine == machine and peer.session.link is None:
                    self._topology.lose(peer, now)
        until = self._silent.get(machine)
        if until == math.inf:
            self._silent[machine] = now + self._topology.config.lease_s
        elif until is not None and until <= now:
            self.on_machine_gone(machine)
        self.redial(key, now)
        self._alarm.by(self._tick(now))  # the next dial may begin

    def on_link_lost(self, link: Link, machine: str, now: float) -> None:
        if link.wanted is not None:
            self.dial(link.wanted[0], now)
        elif machine in self._machines and machine not in self.redial_at:
            self._schedule(machine, now + _PATIENCE_S)  # unless it dials
        # Of its static addresses another one may still lead there, and the other side
        # may not know where this machine is.
        for address in self._static_addresses_of(machine):
            self.redial(address, now)

    def dial(self, key: str, now: float) -> None:
        """Dial a master, unless there is a link, or a dial under way.

        It is dialled later if many dials have just begun.
        """
        addresses = self._machines.get(key, ())
        machine = self._found_at.get(key, key)
        wanted = machine in self._anew or self.conflicts.linked(machine) is None
        if addresses and wanted and key not in self._dialling:
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

    # Time.

    def redial(self, key: str, now: float) -> None:
        if key not in self._machines:
            return  # it was forgotten meanwhile
        delay_s = self._delays.get(key, REDIAL_S)
        self._attempts += 1
        me = self._topology.me
        self._schedule(key, now + jittered(delay_s, me, key, self._attempts))
        self._delays[key] = min(2 * delay_s, _REDIAL_S_MAX)

    def _schedule(self, key: str, at: float) -> None:
        self._alarm.by(at)
        self.redial_at[key] = at

    def _static_addresses_of(self, machine: str) -> list[str]:
        """Return the static addresses at which a machine was found."""
        return [each for each, found in self._found_at.items() if found == machine]

    def on_link_made(self, link: Link, machine: str) -> None:
        for key in {machine, machine if link.wanted is None else link.wanted[0]}:
            self._delays.pop(key, None)
            self._anew.discard(key)
            self.failures.forget(key)
        for address in self._static_addresses_of(machine):
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

    # Reports.

    def known(self, now: float) -> list[MachineInfo]:
        if not self._topology.is_master:
            return []
        peers = {each.machine: each for each in self._topology.joined()}
        peers.pop(self._topology.me.machine, None)
        keys: dict[str, list[str]] = {machine: [] for machine in peers}
        conflicts = self.conflicts.present(now)
        in_conflict = {each.address for each in conflicts}
        unnamed = []
        for key in self._machines:
            machine = self.machine_at(key)
            if machine is not None:
                keys.setdefault(machine, []).append(key)
            elif key not in in_conflict:
                unnamed.append(key)
        return [
            *(
                self._info(each, peers.get(each), keys[each], now)
                for each in sorted(keys)
            ),
            *(self._info(None, None, [key], now) for key in unnamed),
            *(_conflict(each, now) for each in conflicts),
        ]

    def ignored_announcements(self) -> Mapping[str, int]:
        return self.ignored()

    def _info(
        self, name: str | None, peer: Peer | None, keys: list[str], now: float
    ) -> MachineInfo:
        """Describe one machine; keys: those by which it is dialled."""
        address = self._address_of(keys[0]) if keys else None
        link = (
            None if peer is None else self._links.by_number.get(peer.session.link or 0)
        )
        if link is not None and peer is not None and peer.session.ready:
            return MachineInfo(
                name=name,
                address=address,
                state=MachineState.LINKED,
                since_s=now - link.since,
                round_trip_s=peer.round_trip_s,
                why="",
            )
        failures = self.failures.last(keys)
        starts = [self.found_at.get(key) for key in keys]
        starts += [self.failures.first_at(key) for key in keys]
        if peer is not None:
            starts = [peer.since]
        since = min((each for each in starts if each is not None), default=None)
        why = "its link was lost" if peer is not None and link is None else ""
        if any(each.is_refusal for each in failures):
            state = MachineState.REFUSED
        elif failures or (keys and name not in self.redial_at):
            state = MachineState.DIALLING
        else:
            state = MachineState.WAITING
        return MachineInfo(
            name=name,
            address=address,
            state=state,
            since_s=None if since is None else now - since,
            round_trip_s=None,
            why=failures[-1].why if failures else why,
        )

    def _address_of(self, key: str) -> str:
        """Return the first address of a machine; another key itself."""
        return self._machines.get(key, (key,))[0]

    def machine_at(self, key: str) -> str | None:
        """Return the machine of a key; None if it is not known yet."""
        return self._found_at.get(key) if is_static(key) else key


def _conflict(conflict: NameConflict, now: float) -> MachineInfo:
    return MachineInfo(
        name=conflict.name,
        address=conflict.address or None,
        state=MachineState.CONFLICT,
        since_s=now - conflict.since,
        round_trip_s=None,
        why=f"{conflict.holder} has this name, too: {REMEDY}",
    )
