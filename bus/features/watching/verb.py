"""``bus tree``, ``bus list`` and ``bus top``: a live bus, its names, its activity."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.live import joined, live_options
from bus.cli.numbers import FiniteRange
from bus.cli.queries import Answers, query_other_machines, query_own_machine
from bus.cli.text import show_table, split_table, table_lines, to_json
from bus.journal.wording import printable
from bus.model.address import is_system
from bus.model.snapshot import MachineState
from queuebroker import _sync
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from bus.api.bus import Bus
    from bus.cli.target import Target

__all__ = ["list_names", "top", "tree"]


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


_HEAD: Final = (
    *("process", "role", "tasks", "messages", "per_s", "notified", "notified_per_s"),
    *("no_subscriber", "received", "received_per_s", "unread", "dropped", "expired"),
    *("refused", "nobody", "in_doubt", "queued", "blocked"),
)


@attrs.frozen
class _Row:
    """The figures of one process, since it joined; departed tasks are in them.

    messages: commands and notifications that callbacks got.
    notified: notifications that its tasks have sent, each counted once.
    no_subscriber: those among them for which there was no subscriber.
    received: the notifications among messages.
    per_s, notified_per_s, received_per_s: since the last refresh; None at the first.
    dropped: messages dropped to make room for newer ones.
    expired: messages whose deadline had passed.
    refused: messages rejected for lack of room.
    nobody: messages for a name that no task registered in time.
    in_doubt: messages on their way to a process that was lost.
    queued: messages queued for other processes, or not acknowledged by them.
    blocked: senders that wait for room.
    """

    process: str
    role: str
    tasks: int
    messages: int
    per_s: float | None
    notified: int
    notified_per_s: float | None
    no_subscriber: int
    received: int
    received_per_s: float | None
    unread: int
    dropped: int
    expired: int
    refused: int
    nobody: int
    in_doubt: int
    queued: int
    blocked: int


@click.command(epilog="Example: bus top --once")
@click.option("--once", is_flag=True, help="Print the totals once.")
@click.option(
    "--interval",
    "interval_s",
    type=FiniteRange(min=0.1, max=3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two refreshes.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Exit after N refreshes.  [default: run until Ctrl-C]",
)
@live_options(10.0)
def top(target: Target, *, once: bool, interval_s: float, count: int | None) -> None:
    """Show the activity of each process: message rates, queues, dropped messages.

    Rates are shown from the second refresh on. --timeout applies to each answer. Exits
    with 1 if a process could not be queried at the last refresh, with 124 if it did not
    answer in time.
    """
    if once and count is not None:
        raise click.UsageError("--count cannot be combined with --once")
    with joined(target) as bus:
        if once:
            answers = query_own_machine(target, bus)
            rows = _rows(answers, {}, 0.0)
            if target.as_json:
                click.echo(to_json([attrs.asdict(row) for row in rows]))
            else:
                show_table(_HEAD, _cells(rows))
            answers.end()
            return
        try:
            answers = _watch(target, bus, interval_s, count)
        except KeyboardInterrupt:
            return  # the regular end
    answers.end_quietly()


def _watch(target: Target, bus: Bus, interval_s: float, count: int | None) -> Answers:
    """Refresh the display repeatedly; return the answers of the last refresh."""
    numbers: Iterator[int] = itertools.count() if count is None else iter(range(count))
    before: dict[str, _Row] = {}
    seen_at = _sync.monotonic()
    with _display(target) as show:
        for number in numbers:
            if number:
                pause(interval_s)
            answers = query_own_machine(target, bus)
            now = _sync.monotonic()
            rows = _rows(answers, before, now - seen_at)
            before = {row.process: row for row in rows}
            seen_at = now
            show(rows, answers)
    return answers


class _Printed:
    """A display that prints each refresh below the previous one."""

    def __init__(self, target: Target) -> None:
        self._as_json: Final = target.as_json

    def __enter__(self) -> Callable[[list[_Row], Answers], None]:
        return self._show

    def __exit__(self, *_: object) -> None:
        """Do nothing: printed lines stay."""

    def _show(self, rows: list[_Row], answers: Answers) -> None:
        if self._as_json:
            lines = [to_json(attrs.asdict(row)) for row in rows]
        else:
            lines = list(table_lines(_HEAD, _cells(rows)))
        for line in lines:
            click.echo(line)
        sys.stdout.flush()
        answers.complain()


class _Screen:
    """A display that replaces the previous refresh, on a terminal.

    A table that is wider than the terminal is split, so that no column is missing.
    """

    def __init__(self) -> None:
        from rich.live import Live  # noqa: PLC0415 # slow to load; for terminals only

        self._live: Final = Live(auto_refresh=False)

    def __enter__(self) -> Callable[[list[_Row], Answers], None]:
        self._live.__enter__()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def _show(self, rows: list[_Row], answers: Answers) -> None:
        from rich.text import Text  # noqa: PLC0415 # likewise

        text = Text()
        width = self._live.console.width
        for part in split_table(_HEAD, _cells(rows), width):
            head, *lines = table_lines(*part)
            text.append(f"{head}\n", style="bold")
            text.append("".join(f"{line}\n" for line in lines))
        text.append("".join(f"{line}\n" for line in answers.complaints()))
        text.rstrip()
        self._live.update(text, refresh=True)


def _display(
    target: Target,
) -> AbstractContextManager[Callable[[list[_Row], Answers], None]]:
    if sys.stdout.isatty() and not target.as_json:
        return _Screen()
    return _Printed(target)


def _cells(rows: list[_Row]) -> list[list[object]]:
    return [
        ["" if each is None else round(each) if isinstance(each, float) else each
         for each in attrs.astuple(row)]
        for row in rows
    ]  # fmt: skip


def _rows(answers: Answers, before: Mapping[str, _Row], passed_s: float) -> list[_Row]:
    return [_row(told, before, passed_s) for told in answers.told]


def _row(told: Mapping[str, Any], before: Mapping[str, _Row], passed_s: float) -> _Row:
    tasks = [task for thread in told["threads"] for task in thread["tasks"]]
    totals = told["totals"]
    counters = totals["commands"], totals["notifications"]

    def total(kind: str) -> int:
        return sum(each[kind] for each in counters)

    sent, notifying = told.get("relay_counters", {}), told.get("notifying", {})
    process, messages = told["process"], total("delivered")
    # Each notification is queued once for all other processes together.
    notified = notifying.get("accepted", 0) + notifying.get("refused", 0)
    received = totals["notifications"]["delivered"]
    last = before.get(process)

    def rate(count: int, counted: int) -> float | None:
        # A process that was started again counts from 0.
        return None if last is None else max(0, count - counted) / passed_s

    return _Row(
        process=process,
        role=told["role"],
        tasks=len(tasks),
        messages=messages,
        per_s=rate(messages, last.messages if last else 0),
        notified=notified,
        notified_per_s=rate(notified, last.notified if last else 0),
        no_subscriber=totals["no_subscriber"],
        received=received,
        received_per_s=rate(received, last.received if last else 0),
        unread=total("unread"),
        dropped=sum(each.get("dropped", 0) for each in (*counters, sent, notifying)),
        expired=total("expired"),
        refused=total("refused"),
        nobody=told["gave_up"],
        in_doubt=sent.get("in_doubt", 0),
        queued=sum(each["queue"] + each["unacked"] for each in told["relays"]),
        blocked=sum(thread["blocked"] for thread in told["threads"]),
    )
