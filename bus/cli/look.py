"""``bus tree``, ``bus list``: the processes and tasks of a live bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bus.address import is_system
from bus.cli.json_text import to_json
from bus.cli.live import joined, live_options
from bus.cli.queries import Answers, look_around
from bus.cli.text import show_table
from bus.journal.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bus.cli.target import Target

__all__ = ["list_names", "tree"]


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
