"""``bus route``: how each process of a machine reaches a name, and why that way."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.exits import fail
from bus.cli.live import joined, live_options
from bus.cli.queries import is_here, query_own_machine
from bus.cli.text import to_json
from bus.errors import BusError, CommandTimeoutError
from bus.features.machines.gateway_address import split_gateway_address
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.watching.inspector import inspector_of
from bus.journal.wording import printable
from bus.model.address import ANY_MACHINE, Address
from bus.model.registration import Visibility
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.api.bus import Bus
    from bus.cli.queries import Answers
    from bus.cli.target import Target
    from bus.model.message import Presence
    from bus.model.registration import Key

__all__ = ["route"]

# How long a name of another machine is searched for, in seconds: one that exists is
# found in a few round trips.
_SEARCH_S: Final = 2.0


@attrs.frozen
class _Destination:
    """The task that a route leads to.

    name: its public name. owner: its machine and its process.
    is_gateway: True if other machines reach the process only through its master; None
      if this is not known, since this process does not reach it.
    """

    name: str
    owner: Key
    is_gateway: bool | None = False

    def owner_from(self, machine: str) -> str:
        """Return the name of its process, as on a machine."""
        return self.owner[1] if self.owner[0] == machine else "/".join(self.owner)


@attrs.frozen
class _Route:
    """The route of a message from a process to the task with a name.

    way: "thread", "relay" or "search".
    link: the kind of link that the message uses; None within a process.
    why: the route, as text.
    """

    process: str
    way: str
    link: str | None
    why: str


@click.command(epilog="Example: bus route thermostat")
@click.argument("name")
@click.option(
    "--from", "sender", metavar="PROCESS", help="Show the route from this process."
)
@live_options(10.0)
def route(target: Target, name: str, sender: str | None) -> None:
    """Show the process of NAME, and how each process routes messages to it.

    NAME may be one of another machine, or of any, such as ism://*/log; the routes are
    those from this machine. Exits with 1 if no task has NAME as its public name.
    """
    try:
        address = Address.parse(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from None
    with joined(target) as bus:
        if address.bus not in {None, bus.name}:
            fail(f"no task has the public name {name!r} on bus {target.bus!r}")
        if address.machine == ANY_MACHINE:
            address = _found_anywhere(target, bus, address)
        answers = query_own_machine(target, bus)
        here = is_here(bus, address)
        goal = (_found_here if here else _found_elsewhere)(
            target, bus, address, answers
        )
        machine = bus.machine
    ways = [
        _route_from(told, goal, answers.told[0], target)
        for told in answers.told
        if sender in {None, told["process"]}
    ]
    if not ways:
        if sender in answers.missing:
            answers.end()
        fail(f"bus {target.bus!r} has no process {sender!r}")
    shown = goal.name if here else str(attrs.evolve(address, bus=None))
    owner = goal.owner_from(machine)
    if target.as_json:
        found = [attrs.asdict(each) for each in ways]
        click.echo(to_json({"name": shown, "process": owner, "ways": found}))
    else:
        click.echo(f"{shown}: process {owner}")
        for each in ways:
            click.echo(f"  from {each.process}: {each.why}")
    answers.end()


# The destination.


def _found_anywhere(target: Target, bus: Bus, address: Address) -> Address:
    """Return the address of the task that a name of any machine is bound to."""
    wait_s = _wait_s(target)
    try:
        return bus.wait_for(address, wait_s)
    except CommandTimeoutError:
        fail(
            f"no machine has the public name {address.module!r}: "
            f"searched for {wait_s:g} s"
        )


def _wait_s(target: Target) -> float:
    """Return for how long to search on other machines, in seconds."""
    return _SEARCH_S if target.timeout_s is None else min(_SEARCH_S, target.timeout_s)


def _found_here(
    target: Target, bus: Bus, address: Address, answers: Answers
) -> _Destination:
    """Return the task of this machine, from the answer of its master."""
    owner = answers.told[0]["users"].get(address.module)
    if owner is None:
        fail(f"no task has the public name {address.module!r} on bus {target.bus!r}")
    return _Destination(address.module, (bus.machine, owner))


def _found_elsewhere(
    target: Target, bus: Bus, address: Address, answers: Answers
) -> _Destination:
    """Return the task of another machine, from its master; then reach its process."""
    assert address.machine is not None
    if _master_of(answers.told[0], address.machine) is None:
        fail(
            f"the master of this machine has no link with {address.machine!r}: check "
            "`peers` in its network, and that a bus is open there"
        )
    wait_s = _wait_s(target)
    owner = _owner(bus, address, wait_s)
    if owner is None:
        fail(
            f"no task of machine {address.machine!r} has the public name "
            f"{address.module!r}: searched for {wait_s:g} s"
        )
    return _Destination(
        address.module, owner, is_gateway=_is_gateway(bus, owner, wait_s)
    )


def _owner(bus: Bus, address: Address, wait_s: float) -> Key | None:
    """Return the process of a task of another machine; None if there is no task."""
    whole = attrs.evolve(address, bus=bus.name)
    until = _sync.monotonic() + wait_s
    news: list[Presence] = []
    thread = bus.here()
    watcher = bus.register("watcher", thread=thread, visibility=Visibility.PRIVATE)
    watcher.watch(whole, news.append)
    while not news and (left_s := until - _sync.monotonic()) > 0:
        thread.poll(left_s)
    exchange = bus._exchange
    owner: Key | None = exchange.query(
        lambda: subscriptions_of(exchange.manager).remote_tasks.owner_of(whole)
    )
    watcher.deregister()
    return owner


def _is_gateway(bus: Bus, owner: Key, wait_s: float) -> bool | None:
    """Return True if a process of another machine gives the address of its master.

    For that this process asks it something, and so gets its address. None if it cannot
    be reached, such as without a network.
    """
    machine, process = owner
    with suppress(BusError):
        bus.call(f"ism://{machine}/{inspector_of(process)}", timeout=wait_s)
    comm = bus._node.comm
    assert comm is not None
    peer = comm.remote.topology.peers.get(owner)
    if peer is None:
        return None
    return any(split_gateway_address(each)[1] for each in peer.addresses)


def _master_of(master: Mapping[str, Any], machine: str) -> str | None:
    """Return the master of another machine, if a master has a link with it."""
    for link in master["links"]:
        if link["machine"] == machine and link["kind"] == "signalling":
            name: str = link["process"]
            return name
    return None


# The routes.


def _route_from(
    told: Mapping[str, Any],
    goal: _Destination,
    master: Mapping[str, Any],
    target: Target,
) -> _Route:
    me: str = told["process"]
    here = told["machine"]
    if (here, me) == goal.owner:
        thread = _thread_of(told, goal.name)
        return _Route(me, "thread", None, f"within the process, to {thread}")
    links = {(link["machine"], link["process"]): link for link in told["links"]}
    link = links.get(goal.owner)
    owner = goal.owner_from(here)
    masters = {(here, master["process"])}
    if goal.owner[0] != here and (other := _master_of(master, goal.owner[0])):
        masters.add((goal.owner[0], other))
    # A process with a signalling link to the owner opens no data link.
    signals = (
        {(here, me), goal.owner} <= masters
        if goal.owner[0] != here
        else bool({(here, me), goal.owner} & masters)
    )
    kind = "signalling" if signals else "data" if link is None else link["kind"]
    its = f"{'its' if link else 'a new'} {kind} link with {owner}"
    its += _gateway_text(goal, told, link, master, target, signals=signals)
    named = {
        (each["name"], each["machine"], each["process"])
        for each in told["relays"]
        if each["state"] == "named"
    }
    if (goal.name, *goal.owner) in named:
        return _Route(me, "relay", kind, f"by its relay, over {its}")
    asked = _asked(me, here, goal, master)
    return _Route(me, "search", kind, f"by search: {asked}; then over {its}")


def _asked(me: str, here: str, goal: _Destination, master: Mapping[str, Any]) -> str:
    """Return the processes that a search for the goal asks, as text."""
    first, (machine, owner) = master["process"], goal.owner
    if machine != here:
        other = _master_of(master, machine)
        name = f"the master of {machine}" if other is None else f"{machine}/{other}"
        asks = f"it asks {name}"
        if me != first:
            asks = f"it asks its master {first}, which asks {name}"
        return asks if other == owner else f"{asks}, which asks {owner}"
    if me == first:
        return f"it asks {owner}, which has reported the name to it"
    if owner == first:
        return f"it asks its master {first}, which has the name itself"
    return f"it asks its master {first}, which asks {owner}"


def _gateway_text(
    goal: _Destination,
    told: Mapping[str, Any],
    link: Mapping[str, Any] | None,
    master: Mapping[str, Any],
    target: Target,
    *,
    signals: bool,
) -> str:
    """Return whether frames to another machine pass through masters, and why."""
    machine = goal.owner[0]
    if machine == told["machine"] or signals:
        return ""
    network = target.network
    is_own = network is not None and network.gateway and told is not master
    if link is not None:
        direct = link.get("direct", True)  # an earlier version does not report it
    elif is_own or goal.is_gateway is not None:
        direct = not (is_own or goal.is_gateway)
    else:
        return ""
    if direct:
        return ", directly"
    whose = machine if goal.is_gateway else "this machine" if is_own else None
    why = "" if whose is None else f": the network of {whose} has a gateway"
    return f", through the masters{why}"


def _thread_of(told: Mapping[str, Any], name: str) -> str:
    for thread in told["threads"]:
        if any(task["name"] == name for task in thread["tasks"]):
            return f"thread {printable(thread['name'])}"
    return "a thread of the bus itself"
