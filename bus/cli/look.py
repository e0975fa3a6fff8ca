"""``bus tree``, ``bus list``, ``bus route``: the processes and tasks of a live bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from bus.address import Address, is_system
from bus.cli.exits import fail
from bus.cli.json_text import to_json
from bus.cli.live import joined, live_options
from bus.cli.queries import Answers, is_here, look_around
from bus.cli.text import show_table
from bus.journal.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bus.cli.target import Target

__all__ = ["list_names", "route", "tree"]


@click.command()
@live_options(10.0)
def tree(target: Target) -> None:
    """Show the processes of the machine, their threads and their tasks.

    Exits with 1 if a process could not be queried, with 124 if it did not answer in
    time.
    """
    with joined(target) as bus:
        answers = look_around(target, bus)
    if target.as_json:
        about = {"bus": target.bus, "machine": bus.machine}
        click.echo(to_json(about | {"processes": answers.told}))
    else:
        click.echo(f"bus {target.bus} on {bus.machine}")
        for told in answers.told:
            for line in _process_lines(told):
                click.echo(f"  {line}")
    answers.end()


def _process_lines(told: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{told['process']}, {told['role']}, pid {told['pid']},"
        f" up {told['since_s']:.1f} s"
    )
    for thread in told["threads"]:
        busy_s = thread["busy_s"]
        state = "waits" if busy_s is None else f"busy for {busy_s:.1f} s"
        yield f"  thread {printable(thread['name'])}, {state}"
        for task in thread["tasks"]:
            yield f"    {_task_line(task)}"
    for link in told["links"]:
        state = "" if link["ready"] else ", not ready"
        if link["unresponsive"]:
            state += ", does not respond"
        for end in ("dropped", "failed", "in_doubt"):
            if count := link["counters"][end]:
                state += f", {count} {end.replace('_', ' ')}"
        yield f"  {link['kind']} link with {link['process']}{state}"
    for relay in told["relays"]:
        if relay["queue"] or relay["unacked"]:
            yield (
                f"  for {relay['name']} of {relay['process']}:"
                f" {relay['queue']} queued, {relay['unacked']} not acknowledged"
            )
    for name, count in told["parked"].items():
        yield f"  for {name}, a name that no task has: {count} parked"


def _task_line(task: Mapping[str, Any]) -> str:
    counters = task["commands"]
    parts = [f"{counters['delivered']} delivered", f"{counters['unread']} unread"]
    parts += [
        f"{counters[kind]} {kind.replace('_', ' ')}"
        for kind in ("dropped", "expired", "turned_away")
        if counters[kind]
    ]
    parts += map(_subscription_text, task["subscriptions"])
    mark = " (private)" if task["visibility"] == "private" else ""
    return f"{task['name']}{mark}: {', '.join(parts)}"


def _subscription_text(subscription: Mapping[str, Any]) -> str:
    counters = subscription["notifications"]
    # A process of an earlier version does not report `missed`.
    missed = subscription.get("missed", 0)
    dropped = counters["dropped"] + counters["turned_away"] + missed
    counts = {"unread": counters["unread"], "dropped": dropped}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    suffix = f" ({', '.join(parts)})" if parts else ""
    return f"subscribed to {subscription['to']}{suffix}"


@click.command("list")
@live_options(10.0)
def list_names(target: Target) -> None:
    """List the public names of the machine, each with its process."""
    with joined(target) as bus:
        answers = look_around(target, bus)
    users = _users(answers)
    if target.as_json:
        found = [{"name": name, "process": each} for name, each in users.items()]
        click.echo(to_json(found))
    else:
        show_table(("name", "process"), list(users.items()))
    answers.end()


def _users(answers: Answers) -> dict[str, str]:
    """Return the process of each public name, from the master's answer.

    The names of the bus's own tasks are omitted.
    """
    users = answers.told[0]["users"]
    return {name: users[name] for name in sorted(users) if not is_system(name)}


# Routes.


@attrs.frozen
class _Way:
    """The route of a message from a process to the task with a name.

    way: "thread", "relay" or "search".
    link: the kind of link that the message uses; None within a process.
    why: the route, as text.
    """

    process: str
    way: str
    link: str | None
    why: str


@click.command()
@click.argument("name")
@click.option(
    "--from", "sender", metavar="PROCESS", help="Show the route from this process."
)
@live_options(10.0)
def route(target: Target, name: str, sender: str | None) -> None:
    """Show the process of NAME, and how each process routes messages to it.

    Exits with 1 if no task has NAME as its public name.
    """
    try:
        address = Address.parse(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from None
    module = address.module
    with joined(target) as bus:
        if not is_here(bus, address):
            where = f"on bus {target.bus!r} of machine {bus.machine!r}"
            fail(f"no task has the public name {name!r} {where}")
        answers = look_around(target, bus)
    owner = answers.told[0]["users"].get(module)
    if owner is None:
        fail(f"no task has the public name {module!r} on bus {target.bus!r}")
    ways = [
        _way(told, module, owner, answers.told[0]["process"])
        for told in answers.told
        if sender in {None, told["process"]}
    ]
    if not ways:
        if sender in answers.missing:
            answers.end()
        fail(f"bus {target.bus!r} has no process {sender!r}")
    if target.as_json:
        found = [attrs.asdict(each) for each in ways]
        click.echo(to_json({"name": module, "process": owner, "ways": found}))
    else:
        click.echo(f"{module}: process {owner}")
        for each in ways:
            click.echo(f"  from {each.process}: {each.why}")
    answers.end()


def _way(told: Mapping[str, Any], name: str, owner: str, master: str) -> _Way:
    me = told["process"]
    if me == owner:
        thread = _thread_of(told, name)
        return _Way(me, "thread", None, f"within the process, to {thread}")
    links = {link["process"]: link["kind"] for link in told["links"]}
    relays = [
        each
        for each in told["relays"]
        if (each["name"], each["process"]) == (name, owner) and each["state"] == "named"
    ]
    # A process with a signalling link to the owner opens no data link.
    kind = "signalling" if master in {me, owner} else links.get(owner, "data")
    if relays:
        its = "its" if owner in links else "a new"
        why = f"by its relay, over {its} {kind} link with {owner}"
        return _Way(me, "relay", kind, why)
    if me == master:
        asked = f"it asks {owner}, which has reported the name to it"
    elif owner == master:
        asked = f"it asks its master {master}, which has the name itself"
    else:
        asked = f"it asks its master {master}, which asks {owner}"
    its = "its" if owner in links else "a new"
    why = f"by search: {asked}; then over {its} {kind} link with {owner}"
    return _Way(me, "search", kind, why)


def _thread_of(told: Mapping[str, Any], name: str) -> str:
    for thread in told["threads"]:
        if any(task["name"] == name for task in thread["tasks"]):
            return f"thread {printable(thread['name'])}"
    return "a thread of the bus itself"
