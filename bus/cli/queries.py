"""Queries to the processes of a bus: `Answers`, and the functions that ask for them.

A verb queries the master for the processes of the machine, and then each process about
itself (`bus.features.watching.inspector`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.exits import FAILED, TIMED_OUT, fail
from bus.errors import BusError, CommandTimeoutError, UnresolvedError
from bus.features.watching.inspector import inspector_of
from bus.journal.wording import printable
from bus.model.address import Address
from bus.model.registration import Visibility
from bus.process.run_directory import run_base
from queuebroker import _sync
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bus.api.bus import Bus
    from bus.cli.target import Target
    from bus.model.message import Response
    from bus.model.registration import Key

__all__ = [
    "CONNECT_S_MIN",
    "Answers",
    "ask",
    "ask_master",
    "ask_masters",
    "find_master",
    "has_name",
    "is_here",
    "others",
    "pause",
    "query_other_machines",
    "query_own_machine",
    "silence",
]

_ANSWER_S: Final = 10.0  # for each answer, if the verb itself has no timeout
CONNECT_S_MIN: Final = 1.0  # for the master, even if the timeout is shorter
_POLL_S: Final = 0.05  # between two checks for a master


@attrs.frozen
class Answers:
    """The answers of the queried processes.

    told: each answer, a map that describes its process.
    missing: the processes that did not answer, each with the reason.
    took_s: the time until the answer of each process that answered.
    """

    told: list[Mapping[str, Any]]
    missing: dict[str, BusError]
    took_s: dict[str, float] = attrs.field(factory=dict)

    def complaints(self) -> list[str]:
        """Return one line for each process that did not answer, with the reason."""
        return [
            f"cannot query {process}: {printable(str(error))}"
            for process, error in self.missing.items()
        ]

    def complain(self) -> None:
        """Print the lines of `complaints` on stderr."""
        for line in self.complaints():
            click.echo(f"bus: {line}", err=True)

    def end(self) -> None:
        """Print the missing answers; exit if there are any."""
        self.complain()
        self.end_quietly()

    def end_quietly(self) -> None:
        """Exit if an answer is missing; the caller has printed them."""
        if any(isinstance(each, CommandTimeoutError) for each in self.missing.values()):
            sys.exit(TIMED_OUT)
        if self.missing:
            sys.exit(FAILED)


def query_own_machine(target: Target, bus: Bus) -> Answers:
    """Query every other process of the machine about itself, the master first."""
    first = ask_master(target, bus)
    rest = ask(target, bus, _slaves(first.told[0], bus))
    told, took_s = [*first.told, *rest.told], {**first.took_s, **rest.took_s}
    return Answers(told, rest.missing, took_s)


def others(target: Target, bus: Bus) -> list[str]:
    """Return every other process of the machine, the master first.

    Only the master is queried.
    """
    [told] = ask_master(target, bus).told
    return [told["process"], *_slaves(told, bus)]


def has_name(target: Target, bus: Bus, name: str) -> bool:
    """Return True if the master of a bus knows a public name.

    The master has at least one second to answer, even if the timeout is shorter.

    name: a name or an address.
    """
    address = Address.parse(name)
    if not is_here(bus, address):
        return False
    wait_s = max(CONNECT_S_MIN, _answer_s(target))
    [told] = ask_master(attrs.evolve(target, timeout_s=wait_s), bus).told
    return address.module in told["users"]


def is_here(bus: Bus, address: Address) -> bool:
    """Return True if an address is on the bus and the machine that a verb joined."""
    return address.machine in {None, bus.machine} and address.bus in {None, bus.name}


def ask_master(target: Target, bus: Bus) -> Answers:
    """Return the answer of the master.

    If the master is lost, query the next one as soon as there is one.
    """
    until = _sync.monotonic() + _answer_s(target)
    while True:
        master = find_master(bus, until)
        answers = ask(target, bus, [master])
        if not answers.missing:
            return answers
        error = answers.missing[master]
        is_late = isinstance(error, CommandTimeoutError)
        if _known_master(bus) == master if is_late else _sync.monotonic() >= until:
            raise error
        pause(_POLL_S)


def _slaves(told: Mapping[str, Any], bus: Bus) -> list[str]:
    """Return the other processes in the master's answer, without this one."""
    return sorted(
        each
        for each in told["processes"]
        # The master keeps a process that has just left, such as another run of a verb,
        # a little longer than its names.
        if each not in {told["process"], bus.process}
        and inspector_of(each) in told["users"]
    )


def query_other_machines(
    target: Target, bus: Bus, own: Mapping[str, Any]
) -> dict[str, Answers]:
    """Query the processes of each machine that is linked, by machine.

    A machine whose master does not answer has that one alone, among the missing ones.

    own: the answer of the master of this machine.
    """
    afar = ask_masters(target, bus, own)
    masters = {machine: each.told[0] for machine, each in afar.items() if each.told}
    slaves = [
        (machine, each)
        for machine, told in masters.items()
        for each in _slaves(told, bus)
    ]
    _add(afar, _ask_keys(target, bus, slaves))
    return afar


def ask_masters(target: Target, bus: Bus, own: Mapping[str, Any]) -> dict[str, Answers]:
    """Query the master of each machine that is linked, by machine.

    own: the answer of the master of this machine.
    """
    masters = {
        each["machine"]: each["process"]
        for each in own["links"]
        if each["machine"] != bus.machine and each["kind"] == "signalling"
    }
    afar = {each: Answers([], {}) for each in sorted(masters)}
    _add(afar, _ask_keys(target, bus, [(each, masters[each]) for each in afar]))
    return afar


def _add(afar: Mapping[str, Answers], found: _KeyAnswers) -> None:
    """Add the answers of processes to those of their machines."""
    for (machine, _), told in found.told.items():
        afar[machine].told.append(told)
    for key, error in found.missing.items():
        afar[key[0]].missing["/".join(key)] = error


def ask(target: Target, bus: Bus, processes: Iterable[str]) -> Answers:
    """Query processes of this machine about themselves, all at once."""
    found = _ask_keys(target, bus, [(bus.machine, each) for each in processes])
    missing = {key[1]: error for key, error in found.missing.items()}
    took_s = {key[1]: each for key, each in found.took_s.items()}
    return Answers(list(found.told.values()), missing, took_s)


@attrs.frozen
class _KeyAnswers:
    """As `Answers`, by machine and process."""

    told: dict[Key, Mapping[str, Any]]
    missing: dict[Key, BusError]
    took_s: dict[Key, float]


def _ask_keys(target: Target, bus: Bus, keys: list[Key]) -> _KeyAnswers:
    """Query processes about themselves, all at once, by machine and name."""
    names = {_inspector_address(bus, each): each for each in keys}
    answers = _KeyAnswers({}, {}, {})
    if not names:
        return answers
    timeout_s = _answer_s(target)
    thread = bus.here()
    responses: dict[Key, tuple[Response, float]] = {}
    keys_of = {(machine, inspector_of(name)): (machine, name) for machine, name in keys}

    def note(response: Response) -> None:
        responder = response.responder
        assert responder is not None
        place = (responder.machine or bus.machine, responder.module)
        responses[keys_of[place]] = response, _sync.monotonic() - begun

    asker = bus.register("asker", thread=thread, visibility=Visibility.PRIVATE)
    begun = _sync.monotonic()
    asker.command(list(names), on_response=note, timeout=timeout_s)
    while len(responses) < len(names):
        thread.poll(None)
    asker.deregister()
    for key in names.values():
        response, took_s = responses[key]
        if response.error is None:
            answers.told[key] = _without(response.payload, bus.process)
            answers.took_s[key] = took_s
        else:
            label = key[1] if key[0] == bus.machine else "/".join(key)
            answers.missing[key] = silence(label, response.error)
    return answers


def _inspector_address(bus: Bus, key: Key) -> str:
    """Return how this process names an inspector: on its own machine without it."""
    machine, process = key
    name = inspector_of(process)
    return name if machine == bus.machine else f"ism://{machine}/{name}"


def _answer_s(target: Target) -> float:
    """Return the timeout of each query, in seconds."""
    return _ANSWER_S if target.timeout_s is None else target.timeout_s


def _without(told: Mapping[str, Any], asker: str) -> Mapping[str, Any]:
    """Remove the links and relays that exist only because of the query."""
    kept = {
        kind: [each for each in told[kind] if each["process"] != asker]
        for kind in ("links", "relays")
    }
    return {**told, **kept}


def silence(process: str, error: BusError) -> BusError:
    """Return the error to report for a process that does not answer.

    The process exists, since the master knows its name. So a name that was not
    resolved in time is a timeout as well.
    """
    if isinstance(error, UnresolvedError):
        # With a timeout of 0 the waiting time may be slightly negative.
        return CommandTimeoutError(process, max(0.0, error.waited_s))
    if isinstance(error, CommandTimeoutError):
        return CommandTimeoutError(process, error.timeout_s)
    return error


def find_master(bus: Bus, until: float) -> str:
    """Return the master's name; wait until there is one, or exit at the deadline.

    until: the deadline, on the clock of `_sync.monotonic`.
    """
    while (master := _known_master(bus)) is None:
        if _sync.monotonic() >= until:
            where = run_base() / bus.name
            fail(f"the master of bus {bus.name!r} does not answer: {where}", TIMED_OUT)
        pause(_POLL_S)
    return master


def _known_master(bus: Bus) -> str | None:
    """Return the master's name; None if there is no master at the moment."""
    comm = bus._node.comm
    assert comm is not None
    remote = comm.remote
    stands, master = bus._exchange.query(
        lambda: (remote.topology.has_master, remote.topology.master())
    )
    if not stands:
        return None
    assert isinstance(master.key[1], str)
    return master.key[1]
