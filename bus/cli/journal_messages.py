"""``bus journal export``, ``import`` and ``diff``: verbs about recorded messages."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.exits import finish
from bus.cli.message_files import FORMATS, create_file, read_mcap
from bus.cli.selection import selection_options
from bus.cli.text import Progress, show_table, to_json, wall_text, warn
from bus.errors import JournalError
from bus.journal.difference import compare
from bus.journal.imported import ImportedJournal
from bus.journal.messages import read_messages
from bus.journal.wording import counted, hex64, printable
from bus.journal.writer import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.cli.selection import Selection
    from bus.journal.difference import ComparedMessage, ComparedSequence

__all__ = [
    "diff",
    "export_messages",
    "import_messages",
    "json_lines",
    "refuse_existing",
    "writing",
]

_PROGRESS: Final = 10_000  # messages between two lines of it
_HEAD: Final = ("sender", "kind", "in A", "in B", "equal", "result")
_COLOURS: Final = {"equal": "green", "different": "bold red"}

json_lines = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line."
)


@click.command(
    "export", epilog="Example: bus journal export bus-demo/journal --to jsonl"
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    required=True,
    help="The format of the file.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The new file.  [default: DIR with the format as its suffix]",
)
@selection_options(kinds=True)
def export_messages(
    directory: str, *, form: str, out: Path | None, selection: Selection
) -> None:
    """Write the messages of a bus at or below DIR to a file.

    Each message is written once, as its sender sent it, in the order of time. MCAP
    holds only messages with a whole payload. MCAP and Parquet each need a package.
    Exits with 4 if a file could not be read.
    """
    target = out or Path(f"{os.path.abspath(directory)}.{form}")
    refuse_existing(target)
    filters = selection.filters(directory)
    problems: list[str] = []
    # Under another name first: a part of a file is never mistaken for all of it.
    part = target.with_name(f"{target.name}.part")
    written = without = 0
    with (
        writing(target, lambda: part.unlink(missing_ok=True)),
        Progress(stderr=True) as progress,
    ):
        file = create_file(form, part)
        for message in read_messages(directory, **filters, on_problem=problems.append):
            if file.add(message):
                written += 1
            else:
                without += 1
            if not written % _PROGRESS:
                progress.show(counted(written, "message"))
        file.close()
        part.rename(target)
    click.echo(f"{target}: {counted(written, 'message')}")
    if without:
        left = f"left out {counted(without, 'message')} without a whole payload"
        remedy = "record with Journal(payloads=True), or choose another format"
        line = f"{left}: {form} holds none; {remedy}"
        if written:
            warn([line])
        else:
            problems.append(line)
    finish(problems)


@click.command("import", epilog="Example: bus journal import run.mcap --out run")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder for the new journal; it may hold others.",
)
def import_messages(file: Path, *, out: Path) -> None:
    """Write the messages of an MCAP file to a new journal.

    Messages in a file of `bus journal export` keep their sender, receiver and kind.
    Messages in any other file become notifications of tasks named after their topics.
    """
    imported = 0
    journal: ImportedJournal | None = None
    with (
        writing(out, lambda: journal.discard() if journal else None),
        Progress(stderr=True) as progress,
    ):
        for message in read_mcap(file):
            if journal is None:
                program = os.fspath(file)
                journal = ImportedJournal(
                    out, program=program, begin_ns=message.wall_ns
                )
            journal.add(**message._asdict())
            imported += 1
            if not imported % _PROGRESS:
                progress.show(counted(imported, "message"))
        if journal is None:
            raise JournalError(f"cannot import {file}: it holds no message")
        journal.close()
    click.echo(f"{journal.folder}: {counted(imported, 'message')}")


@click.command(epilog="Example: bus journal diff recorded replayed --kind notification")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@selection_options(kinds=True)
@json_lines
def diff(first: str, second: str, *, selection: Selection, as_json: bool) -> None:
    """Compare the messages of the recordings A and B.

    For each sender and kind, compares the n-th message in A with the n-th in B: the
    receiver, the size, and the payload if both have it. Times are not compared. Exits
    with 1 if messages differ, else with 4 if a file could not be read.
    """
    problems: list[str] = []
    messages = (
        read_messages(each, **selection.filters(each), on_problem=problems.append)
        for each in (first, second)
    )
    results = compare(*messages)
    if as_json:
        for each in results:
            click.echo(to_json(_fields(each)))
    else:
        _show(results, first, second)
    finish(problems, failed=any(each.different for each in results))


def _show(results: list[ComparedSequence], first: str, second: str) -> None:
    rows = [
        (
            printable(each.sender) or "?",
            each.kind,
            *each.counts,
            each.equal,
            "different" if each.different else "equal",
        )
        for each in results
    ]
    show_table(_HEAD, rows, colours=_COLOURS)
    for each in results:
        if each.different:
            sender = printable(each.sender) or "?"
            click.echo(f"{each.kind} {each.equal + 1} of {sender} differs:")
            click.echo(f"  A: {_described(each.first, first)}")
            click.echo(f"  B: {_described(each.second, second)}")
    by_size = sum(each.by_size for each in results)
    if by_size:
        lack = "A or B lacks their whole payload"
        click.echo(f"{counted(by_size, 'message')} compared by size only: {lack}")
    unequal = sum(each.different for each in results)
    click.echo(
        f"{counted(len(results), 'sequence')} compared, {unequal:,} different"
        if results
        else "no messages to compare"
    )


def _described(message: ComparedMessage | None, directory: str) -> str:
    if message is None:
        return "no such message"
    to = f" to {printable(message.receiver)}" if message.receiver else ""
    record = f"record {message.n} of journal {hex64(message.journal)}"
    when = wall_text(message.wall_ns)
    return f"{when}{to}, {message.size:,} bytes, {record} in {printable(directory)}"


def _fields(each: ComparedSequence) -> dict[str, Any]:
    count_a, count_b = each.counts
    return {
        "sender": each.sender,
        "kind": each.kind,
        "a": count_a,
        "b": count_b,
        "equal": each.equal,
        "by_size": each.by_size,
        "different": each.different,
        "first_in_a": _message_fields(each.first),
        "first_in_b": _message_fields(each.second),
    }


def _message_fields(message: ComparedMessage | None) -> dict[str, Any] | None:
    if message is None:
        return None
    fields = attrs.asdict(
        message, filter=lambda field, _: field.name not in {"kept", "digest"}
    )
    return fields | {"journal": hex64(message.journal)}


@contextmanager
def writing(path: Path, discard: Callable[[], object]) -> Iterator[None]:
    """Remove the output if a block does not write all of it; a context manager.

    A part must not pass for the whole, nor refuse the next attempt. An OSError becomes
    a JournalError with the path: its own text names a temporary file, or none at all.

    discard: removes the output.
    """
    try:
        yield
    except BaseException as error:
        discard()
        if not isinstance(error, OSError):
            raise
        room = "make room, or " if error.errno in NO_ROOM else ""
        fact = error.strerror or error
        raise JournalError(
            f"cannot write {path}: {fact}; {room}give another --out"
        ) from None


def refuse_existing(path: Path) -> None:
    """Raise JournalError if a file or folder exists."""
    if path.exists():
        raise JournalError(
            f"cannot write {path}: it exists; remove it, or give another --out"
        )
