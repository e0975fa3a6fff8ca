"""The public names that several machines of a bus have, for ``bus doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.address import ANY_MACHINE, fresh_name, is_system, name_anywhere
from bus.api.membership import open_bus
from bus.cli.finding import OK, WARN, Finding
from bus.cli.queries import ask_master, ask_masters
from bus.cli.run_directory import access_to
from bus.config import BusConfig
from bus.errors import BusError
from bus.role import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bus.cli.target import Target
    from bus.network import Network

__all__ = ["compare_names", "shared_names"]

_WHAT: Final = "names"
_SILENT: Final = (
    "check whether that process is stopped or overloaded, then run this command again"
)
_NAMES_MAX: Final = 20  # findings; the others are counted


def compare_names(target: Target, network: Network, machine: str) -> list[Finding]:
    """Join the bus of this machine, and warn of names that other machines have, too.

    network, machine: with which to join; the bus must run on this machine.
    """
    try:
        with open_bus(
            target.bus,
            role=Role.SLAVE,
            process=fresh_name("doctor"),
            machine=machine,
            config=BusConfig(access=access_to(target)),
            network=network,
        ) as bus:
            _, own = ask_master(target, bus)
            afar = ask_masters(target, bus, own)
    except (BusError, ValueError, OSError) as error:
        do = "see 'bus tree --network' for the names of each machine"
        return [Finding(_WHAT, WARN, f"not compared: {error}", do)]
    # The master of each machine has all names of that machine.
    users = {machine: _names(own)}
    missing: dict[str, BusError] = {}
    for other, answers in afar.items():
        for told in answers.told:
            users[other] = _names(told)
        missing |= answers.missing
    return shared_names(users, missing)


def _names(told: Mapping[str, Any]) -> list[str]:
    return [name for name in told.get("users", ()) if not is_system(name)]


def shared_names(
    users: Mapping[str, Iterable[str]], missing: Mapping[str, BusError]
) -> list[Finding]:
    """Return a warning for each name that several machines have (BUS-NAME-8).

    Return no finding if there is one machine only, and none is missing.

    users: the public names of each machine.
    missing: the masters that could not be queried, each with the reason; each gets a
      warning.
    """
    holders: dict[str, list[str]] = {}
    for machine in sorted(users):
        for name in set(users[machine]):
            holders.setdefault(name, []).append(machine)
    shared = sorted(name for name in holders if len(holders[name]) > 1)
    findings = [
        Finding(
            f"name {name}",
            WARN,
            f"machines {', '.join(holders[name])} have it: {name_anywhere(name)} is the"
            f" one of the sender's machine, else of {holders[name][0]}",
            f"rename one if senders use {ANY_MACHINE!r} for its machine",
        )
        for name in shared[:_NAMES_MAX]
    ]
    if (more := len(shared) - _NAMES_MAX) > 0:
        fact = f"{more} further names are on several machines"
        findings.append(Finding(_WHAT, WARN, fact))
    for process, error in missing.items():
        fact = f"not compared with {process.partition('/')[0]}: cannot query {process}"
        findings.append(Finding(_WHAT, WARN, f"{fact}: {error}", _SILENT))
    # The names of a missing machine may be shared: then there is no `OK`.
    if len(users) > 1 and not shared and not missing:
        fact = f"no public name is on two of {len(users)} machines"
        findings.append(Finding(_WHAT, OK, fact))
    return findings
