"""``bus journal``: the group of verbs, and those about records: ``ls``, ``cat``, ...

They show the recorded operations, unchecked. Files that cannot be read are reported, by
a line and by the exit code; the rest is shown.
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import finish
from bus.cli.journal_messages import (
    diff,
    export_messages,
    import_messages,
    json_lines,
    refuse_existing,
    writing,
)
from bus.cli.selection import parsed_time, selection_options
from bus.cli.text import plain, show_table, to_json, wall_text, warn
from bus.errors import WireError
from bus.journal.format import Flag, RecordKind, kind_name
from bus.journal.messages import task_names
from bus.journal.reader import open_journals
from bus.journal.snapshot import take_snapshot
from bus.journal.wording import counted, hex64, printable, reason_name
from bus.model.payload import decode
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bus.cli.selection import Selection, Time
    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts, StoredJournal

__all__ = ["journal"]

_KINDS: Final = {kind.name.lower(): int(kind) for kind in RecordKind}
_AROUND: Final = 5
_COLUMNS: Final = (
    *("journal", "machine", "pid", "records", "holes", "lost", "payloads_lost"),
    *("segments", "sealed", "state", "opened"),
)


@click.group(epilog="Example: bus journal ls bus-demo/journal")
def journal() -> None:
    """List, show, verify, copy and compare journals."""


for _verb in (export_messages, import_messages, diff):
    journal.add_command(_verb)


@journal.command()
@click.argument("directory", metavar="DIR")
@json_lines
def ls(directory: str, *, as_json: bool) -> None:
    """List the journals at or below DIR.

    The state is ? if no segment could be read. Exits with 4 if a file could not be
    read.
    """
    rows = []
    problems: list[str] = []
    for each in open_journals(directory):
        rows.append(_row(each, each.facts()))
        problems += each.problems
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
    else:
        shown = [(*map(_cell, row.values()),) for row in rows]
        colours = {"damaged": "bold red", "open": "yellow"}
        show_table(_COLUMNS, shown, colours=colours)
    finish(problems)


def _row(journal: StoredJournal, facts: JournalFacts) -> dict[str, str | int]:
    values = (
        hex64(journal.id),
        journal.machine,
        journal.meta.pid or 0,
        facts.records,
        facts.gaps,
        facts.lost,
        facts.payloads_lost,
        facts.segments,
        facts.sealed,
        _state(facts),
        wall_text(journal.meta.wall),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _cell(value: str | int) -> str | int:
    return printable(value) if isinstance(value, str) else value


def _flow(_: object, __: object, text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a hexadecimal number") from None


def _place(_: object, __: object, text: str | None) -> tuple[int | None, int | None]:
    """Return the journal and the number of a record as `cat` shows it."""
    if text is None:
        return None, None
    journal, _, number = text.rpartition(":")
    try:
        place = int(journal, 16) if journal else None, int(number)
    except ValueError:
        place = None, -1
    if place[1] < 0:
        raise click.BadParameter(
            f"{text!r} is no record; give its number, or JOURNAL:N as `cat` shows it"
        )
    return place


@journal.command()
@click.argument("directory", metavar="DIR")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    type=click.Choice(list(_KINDS)),
    help="Show records of this kind only, such as command or link_up; may be repeated."
    " An unknown KIND prints the list.",
)
@click.option(
    "--flow",
    metavar="HEX",
    callback=_flow,
    help="Show records of this flow only.",
)
@click.option(
    "--around",
    metavar="[JOURNAL:]N",
    callback=_place,
    help=f"Show this record, and {_AROUND} selected ones before and after it; of each"
    " journal, or of the one named.",
)
@selection_options()
@click.option("--payloads", is_flag=True, help="Show the payloads that were kept.")
@json_lines
def cat(
    directory: str,
    *,
    kinds: tuple[str, ...],
    flow: int | None,
    around: tuple[int | None, int | None],
    selection: Selection,
    payloads: bool,
    as_json: bool,
) -> None:
    """Show the records of the journals at or below DIR, one per line.

    Exits with 4 if a file could not be read.
    """
    wanted_kinds = {_KINDS[kind] for kind in kinds}
    patterns = [*map(Specification.parse, selection.names)]
    journals = open_journals(directory)
    since_ns, until_ns = selection.range_ns(journals)
    names = task_names(journals) if patterns else {}
    owner, near = around
    if owner is not None:
        journals = [each for each in journals if each.id == owner]
        if not journals:
            message = (
                f"{directory} has no journal {hex64(owner)}; `bus journal ls` shows"
                " those that it has"
            )
            raise click.BadParameter(message, param_hint="'--around'")

    def wanted(journal: StoredJournal, one: Record) -> bool:
        return (
            (not wanted_kinds or one.kind in wanted_kinds)
            and flow in (None, one.flow)
            and (since_ns is None or journal.wall_ns(one.mono) >= since_ns)
            and (until_ns is None or journal.wall_ns(one.mono) < until_ns)
            and (
                not patterns
                or any(
                    pattern.matches(name)
                    for name in _names_in(journal, one, names)
                    for pattern in patterns
                )
            )
        )

    found = (
        (each, one)
        for each in journals
        for one in _near(each, functools.partial(wanted, each), near)
    )
    line = _json_line if as_json else _line
    last = -1
    for each, one in found:
        click.echo(line(each, one, payloads=payloads))
        last = max(last, one.n)
    if near is not None and last < near:
        end = "" if last < 0 else f": the last one is {last}"
        warn([f"no record has the number {near}{end}"])
    finish(problem for each in journals for problem in each.problems)


@journal.command()
@click.argument("directory", metavar="DIR")
def verify(directory: str) -> None:
    """Check every file of the journals at or below DIR.

    Exits with 1 if a file is damaged, else with 4 if a file could not be read. Missing
    records are no damage: `bus check` reports them.
    """
    damaged = 0
    problems: list[str] = []
    for each in open_journals(directory):
        facts = each.facts()
        each.read_payloads()
        damaged += facts.damaged + each.damaged_payloads
        problems += each.problems
        if not each.problems:
            held = f"records {facts.records}, segments {facts.segments}"
            click.echo(f"{hex64(each.id)} ok: {held}")
    finish(problems, failed=damaged > 0)


def _duration_ns(context: click.Context, option: click.Parameter, text: str) -> int:
    time: Time | None = None
    with suppress(click.BadParameter):  # it describes times, which are refused here
        time = parsed_time(context, option, text)
    if time is None or time.base != "end":
        raise click.BadParameter(f"{text!r} is no duration: give one such as 5m or 90s")
    return -time.ns


@journal.command(
    "snapshot",
    epilog="Example: bus journal snapshot journals --last 5m --out incident",
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--last",
    "last_ns",
    metavar="DURATION",
    required=True,
    callback=_duration_ns,
    help="Copy at least the records of this time before the last one, such as 5m.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="The new folder, outside the recording.",
)
def copy_end(directory: str, *, last_ns: int, out: Path) -> None:
    """Copy the end of the recording at DIR to a new folder.

    The recorded programs may still run. Whole segments are copied, with their payloads,
    so the copy begins earlier. In verdicts, the records before it count as missing.
    Exits with 4 if a file could not be copied.
    """
    refuse_existing(out)
    with writing(out, lambda: shutil.rmtree(out, ignore_errors=True)):
        taken = take_snapshot(directory, out, last_ns)
    parts = (
        counted(taken.journals, "journal"),
        counted(taken.segments, "segment"),
        counted(taken.records, "record"),
        counted(taken.payload_files, "payload file"),
    )
    click.echo(f"{out}: {', '.join(parts)}")
    finish(taken.problems)


def _state(facts: JournalFacts) -> str:
    if facts.damaged:
        return "damaged"
    if not facts.segments:
        return "?"
    return "closed" if facts.closed else "open"


def _near(
    journal: StoredJournal, wanted: Callable[[Record], bool], around: int | None
) -> Iterator[Record]:
    """Yield the wanted records of a journal; with `around`, only those near it."""
    records = filter(wanted, journal.records())
    if around is None:
        yield from records
        return
    before: deque[Record] = deque(maxlen=_AROUND)
    for one in records:
        if one.n < around:
            before.append(one)
            continue
        yield from before
        yield one
        # The record itself may be missing, or not wanted.
        yield from itertools.islice(records, _AROUND - (one.n > around))
        return
    yield from before


def _names_in(
    journal: StoredJournal, record: Record, names: Mapping[int, str]
) -> Iterator[str]:
    """Return the names that a record refers to."""
    found = [journal.name(record.task), journal.name(record.peer)]
    if record.kind >= RecordKind.REGISTER:
        found += names.get(record.origin, ""), names.get(record.flow, "")
    return filter(None, found)


def _line(journal: StoredJournal, record: Record, *, payloads: bool) -> str:
    line = (
        f"{wall_text(journal.wall_ns(record.mono))} {hex64(journal.id)}:{record.n}"
        f" {kind_name(record.kind)}"
    ) + "".join(f" {part}" for part in _parts(journal, record))
    if payloads:
        for name, value in _payload(journal, record).items():
            line += f" {name} {to_json(value)}"
    return line


def _payload(journal: StoredJournal, record: Record) -> dict[str, Any]:
    """Return the payload of a record, or the fact that it is not whole, by its name."""
    body = journal.payload(record)
    if body is None:
        return {}
    if record.flags & Flag.TRUNCATED:
        return {"truncated": len(body)}
    try:
        return {"payload": decode(body)}
    except WireError as error:
        journal.add_problem(
            f"record {record.n} of journal {hex64(journal.id)}: {error}"
        )
        return {}


def _parts(journal: StoredJournal, record: Record) -> Iterator[str]:
    """Yield the fields of a record that have a value, as text."""
    task, peer = journal.name(record.task), journal.name(record.peer)
    if task or peer:
        yield f"{printable(task) or '?'} / {printable(peer) or '?'}"
    if record.port:
        of_bus = RecordKind.REGISTER <= record.kind < RecordKind.LINK_UP
        yield f"{'message' if of_bus else 'port'} {record.port}"
    if record.flow >> 1:
        yield f"flow {hex64(record.flow)}"
    if record.flags & Flag.PAYLOAD:  # without its location, which only programs need
        yield "truncated payload" if record.flags & Flag.TRUNCATED else "payload"
        record = record._replace(seq=0)
    for name in ("seq", "size", "depth", "wait_us", "hop"):
        value = getattr(record, name)
        if value:
            yield f"{name} {value}"
    if record.reason:
        yield f"reason {reason_name(record.reason)}"
    if record.thread:
        yield f"[{printable(journal.thread(record.thread)) or record.thread}]"


def _json_line(journal: StoredJournal, record: Record, *, payloads: bool) -> str:
    fields: dict[str, Any] = record._asdict()
    del fields["mark"]
    fields |= {
        "journal": hex64(journal.id),
        "wall": journal.wall_ns(record.mono),
        "kind": kind_name(record.kind),
        "reason": reason_name(record.reason),
        "flow": hex64(record.flow),
        "origin": hex64(record.origin),
        "task": journal.name(record.task),
        "peer": journal.name(record.peer),
        "thread": journal.thread(record.thread),
    }
    if payloads:
        fields |= plain(_payload(journal, record))
    return json.dumps(fields)
