"""``bus top``: a refreshed table of the activity of each process of a live bus."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.json_text import to_json
from bus.cli.live import joined, live_options
from bus.cli.numbers import FiniteRange
from bus.cli.queries import Answers, query_own_machine
from bus.cli.text import show_table, table_lines
from queuebroker import _sync
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from bus.api.bus import Bus
    from bus.cli.target import Target

__all__ = ["top"]

_HEAD: Final = (
    *("process", "role", "tasks", "messages", "per_s", "notified", "notified_per_s"),
    *("no_subscriber", "received", "received_per_s", "unread", "dropped", "expired"),
    *("refused", "nobody", "in_doubt", "queued", "blocked"),
)


@attrs.frozen
class _Row:
    """The figures of one process.

    messages: commands and notifications that callbacks got since its tasks registered.
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
        for head, *lines in _tables(_cells(rows), self._live.console.width):
            text.append(f"{head}\n", style="bold")
            text.append("".join(f"{line}\n" for line in lines))
        text.append("".join(f"{line}\n" for line in answers.complaints()))
        text.rstrip()
        self._live.update(text, refresh=True)


def _tables(cells: list[list[object]], width: int) -> Iterator[list[str]]:
    """Yield the lines of each table; together the tables have all columns.

    Each table begins with the first column, the process, and has at least one more. It
    is no wider than the screen, unless two columns already are.
    """
    taken = [0]
    for column in range(1, len(_HEAD)):
        wider = _table(cells, [*taken, column])
        if len(taken) > 1 and max(map(len, wider)) > width:
            yield _table(cells, taken)
            taken = [0]
        taken.append(column)
    yield _table(cells, taken)


def _table(cells: list[list[object]], columns: list[int]) -> list[str]:
    """Return the lines of a table with these columns, the head first."""
    rows = [[row[column] for column in columns] for row in cells]
    return list(table_lines([_HEAD[column] for column in columns], rows))


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
    received_counters = [
        each["notifications"] for task in tasks for each in task["subscriptions"]
    ]
    counters = [*(task["commands"] for task in tasks), *received_counters]

    def total(kind: str) -> int:
        return sum(each[kind] for each in counters)

    sent, notifying = told.get("relay_counters", {}), told.get("notifying", {})
    process, messages = told["process"], total("delivered")
    # Each notification is queued once for all other processes together.
    notified = notifying.get("accepted", 0) + notifying.get("refused", 0)
    received = sum(each["delivered"] for each in received_counters)
    last = before.get(process)

    def rate(count: int, counted: int) -> float | None:
        # A sum decreases when a task leaves, since its figures are no longer in it.
        return None if last is None else max(0, count - counted) / passed_s

    return _Row(
        process=process,
        role=told["role"],
        tasks=len(tasks),
        messages=messages,
        per_s=rate(messages, last.messages if last else 0),
        notified=notified,
        notified_per_s=rate(notified, last.notified if last else 0),
        # A process of an earlier version does not report it.
        no_subscriber=sum(task.get("no_subscriber", 0) for task in tasks),
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
