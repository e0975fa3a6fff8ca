"""``bus shm``: the shared memory of the processes of a live bus, and its leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.live import joined, live_options
from bus.cli.queries import query_own_machine
from bus.cli.text import duration, show_table, to_json
from bus.journal.wording import printable
from bus.pipeline.wording import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bus.cli.target import Target

__all__ = ["shm"]

_ARENA: Final = (
    *("process", "arena", "limit", "buffer", "slabs", "buffers", "used", "free"),
    *("duplicates", "loans", "abandoned"),
)
_RECIPIENTS: Final = (
    *("process", "recipient", "oldest", "queue", "held", "share", "mapped"),
    *("refused", "shared", "beyond_share", "no_room", "not_mapped"),
)
_VIEWS: Final = ("process", "views_of", "oldest", "views", "slabs")


@click.command(epilog="Example: bus shm --bus house")
@live_options(10.0)
def shm(target: Target) -> None:
    """Show the shared memory of each process of this machine.

    First come the blocks of the arenas, one line for each size of buffers: a block for
    each buffer, and a duplicate for each recipient of a message. Then come the
    recipients of long messages, with the queue of those that each one has not released;
    then the views that tasks have of messages in the arenas of other processes.

    Exits with 1 if a process could not be queried, with 124 if it did not answer in
    time.
    """
    with joined(target) as bus:
        answers = query_own_machine(target, bus)
        machine = bus.machine
    if target.as_json:
        told = [
            {
                "process": each["process"],
                "pid": each["pid"],
                "shared_memory": each.get("shared_memory"),
            }
            for each in answers.told
        ]
        click.echo(to_json({"bus": target.bus, "machine": machine, "processes": told}))
    else:
        _show(answers.told)
    answers.end()


def _show(told: Sequence[Mapping[str, Any]]) -> None:
    # A process of an earlier version does not report its shared memory.
    memories = [
        (each["process"], each["shared_memory"])
        for each in told
        if each.get("shared_memory") is not None
    ]
    shown = False
    for head, rows_of in (
        (_ARENA, _arena_rows),
        (_RECIPIENTS, _recipient_rows),
        (_VIEWS, _view_rows),
    ):
        rows = [row for name, memory in memories for row in rows_of(name, memory)]
        if rows:
            if shown:
                click.echo()
            show_table(head, rows)
            shown = True
    if not shown:
        click.echo("no process uses shared memory")


def _arena_rows(process: str, memory: Mapping[str, Any]) -> Iterator[list[object]]:
    for each in memory["slabs"]:
        yield [
            process,
            size(memory["size"]),
            size(memory["bytes_max"]),
            size(each["buffer_bytes"]),
            *(each[head] for head in ("slabs", "buffers", "used")),
            each["buffers"] - each["used"],
            *(each[head] for head in ("leases", "loans", "abandoned")),
        ]


def _recipient_rows(process: str, memory: Mapping[str, Any]) -> Iterator[list[object]]:
    for each in memory["recipients"]:
        yield [
            process,
            _name(each["process"]),
            _age(each["since_s"]),
            each["leases"],
            size(each["held_bytes"]),
            size(memory["share_bytes"]),
            each["slabs_mapped"],
            each["slabs_refused"],
            *(each["messages"][head] for head in _RECIPIENTS[8:]),
        ]


def _view_rows(process: str, memory: Mapping[str, Any]) -> Iterator[list[object]]:
    for each in memory["lent"]:
        name, age = _name(each["process"]), _age(each["since_s"])
        yield [process, name, age, each["views"], each["slabs"]]


def _name(process: str) -> str:
    return printable(process) or "?"


def _age(since_s: float | None) -> str:
    return "-" if since_s is None else duration(since_s)
