"""``bus tree``, ``bus list``: the processes and tasks of a live bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bus.address import is_system
from bus.cli.json_text import to_json
from bus.cli.live import joined, live_options
from bus.cli.queries import Answers, query_other_machines, query_own_machine
from bus.cli.text import show_table
from bus.journal.wording import printable
from bus.snapshot import MachineState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bus.cli.target import Target

__all__ = ["list_names", "tree"]


@click.command(epilog="Example: bus tree --bus house")
@click.option("--here", is_flag=True, help="Show this machine only.")
@live_options(10.0)
def tree(target: Target, here: bool) -> None:
    """Show the processes of all machines, their threads and their tasks.

    This machine comes first, then each one that it is linked with. The others are
    shown only with --network, since the command dials their processes.

    Exits with 1 if a process could not be queried, with 124 if it did not answer in
    time.
    """
    with joined(target) as bus:
        answers = query_own_machine(target, bus)
        afar: dict[str, Answers] = {}
        if not here and target.network is not None:
            afar = query_other_machines(target, bus, answers.told[0])
    if target.as_json:
        about = {"bus": target.bus, "machine": bus.machine, "processes": answers.told}
        others = [{"machine": key, "processes": afar[key].told} for key in afar]
        click.echo(to_json(about | {"machines": others}))
    else:
        _show_machine(target.bus, bus.machine, answers)
        for machine, each in afar.items():
            _show_machine(target.bus, machine, each)
        if not here and target.network is None:
            _show_names(answers.told[0])
    for each in afar.values():
        answers.missing.update(each.missing)
    answers.end()


def _show_machine(bus: str, machine: str, answers: Answers) -> None:
    click.echo(f"bus {bus} on {machine}")
    for told in answers.told:
        for line in _process_lines(told):
            click.echo(f"  {line}")


def _show_names(master: Mapping[str, Any]) -> None:
    """Show the machines that cannot be queried without a network."""
    # A master of an earlier version does not report its machines.
    for each in master.get("machines", []):
        if each["state"] == MachineState.LINKED.value:
            name = printable(each["name"])
            click.echo(f"linked with {name}: pass --network FILE to show it")


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
        yield f"  {link['kind']} link with {_owner(link, told)}{state}"
    for relay in told["relays"]:
        if relay["queue"] or relay["unacked"]:
            yield (
                f"  for {relay['name']} of {_owner(relay, told)}:"
                f" {relay['queue']} queued, {relay['unacked']} not acknowledged"
            )
    for name, count in told["parked"].items():
        yield f"  for {name}, a name that no task has: {count} parked"


def _owner(other: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Return the process of a link or a relay, with its machine if that is another."""
    machine, process = other["machine"], other["process"]
    return process if machine == told["machine"] else f"{machine}/{process}"


def _task_line(task: Mapping[str, Any]) -> str:
    counters = task["commands"]
    parts = [f"{counters['delivered']} delivered", f"{counters['unread']} unread"]
    parts += [
        f"{counters[kind]} {kind.replace('_', ' ')}"
        for kind in ("dropped", "expired", "refused")
        if counters[kind]
    ]
    # A process of an earlier version does not report `no_subscriber`.
    if no_subscriber := task.get("no_subscriber", 0):
        parts.append(f"{no_subscriber} notifications without a subscriber")
    parts += map(_subscription_text, task["subscriptions"])
    mark = " (private)" if task["visibility"] == "private" else ""
    return f"{task['name']}{mark}: {', '.join(parts)}"


def _subscription_text(subscription: Mapping[str, Any]) -> str:
    counters = subscription["notifications"]
    # A process of an earlier version does not report `missed`.
    missed = subscription.get("missed", 0)
    dropped = counters["dropped"] + counters["refused"] + missed
    counts = {"unread": counters["unread"], "dropped": dropped}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    suffix = f" ({', '.join(parts)})" if parts else ""
    return f"subscribed to {subscription['to']}{suffix}"


@click.command("list", epilog="Example: bus list --bus house")
@live_options(10.0)
def list_names(target: Target) -> None:
    """List the public names of the machine, each with its process."""
    with joined(target) as bus:
        answers = query_own_machine(target, bus)
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
