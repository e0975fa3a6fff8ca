"""``bus journal export`` and ``import``: messages to and from files of other programs.

A file is written under another name first: a part of one is never mistaken for it.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from bus.cli.chosen import choice_options
from bus.cli.message_files import FORMATS, read_mcap, writer_of
from bus.cli.text import Progress, warn
from bus.errors import JournalError
from bus.journal.imported import ImportedJournal
from bus.journal.messages import KINDS, read_messages
from bus.journal.reader import open_journals
from bus.journal.wording import counted
from bus.journal.writer import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.cli.chosen import Chosen
    from bus.cli.message_files import ReadMessage

__all__ = [
    "export_messages",
    "import_messages",
    "kind_option",
    "refuse_existing",
    "writing",
]

_ERROR: Final = 4
_PROGRESS: Final = 10_000  # messages between two lines of it

kind_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="Choose messages of this kind only; may be repeated.",
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
@choice_options
@kind_option
def export_messages(
    directory: str,
    *,
    form: str,
    out: Path | None,
    chosen: Chosen,
    kinds: tuple[str, ...],
) -> None:
    """Write the messages of a bus at or below DIR to a file.

    Each message is written once, as its sender sent it, in the order of time. CSV and
    JSON lines need no other package. MCAP holds only messages with a payload. Exits
    with 4 if a file could not be read.
    """
    target = out or Path(f"{os.path.abspath(directory)}.{form}")
    refuse_existing(target)
    since_ns, until_ns = chosen.range_ns(open_journals(directory))
    problems: list[str] = []
    messages = read_messages(
        directory,
        names=chosen.names,
        since_ns=since_ns,
        until_ns=until_ns,
        kinds=kinds or KINDS,
        on_problem=problems.append,
    )
    part = target.with_name(f"{target.name}.part")
    written = without = 0
    try:
        with writing(target), Progress(stderr=True) as progress:
            file = writer_of(form, part)
            for message in messages:
                if file.add(message):
                    written += 1
                else:
                    without += 1
                if not written % _PROGRESS:
                    progress.say(counted(written, "message"))
            file.close()
            part.rename(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    click.echo(f"{target}: {counted(written, 'message')}")
    warn(problems)
    if without:
        left = f"left out {counted(without, 'message')} without a whole payload"
        remedy = "record with Journal(payloads=True), or choose another format"
        warn([f"{left}: {form} holds none; {remedy}"])
    sys.exit(_ERROR if problems or (without and not written) else 0)


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

    Messages of a file that `bus journal export` wrote keep their sender, receiver and
    kind. Those of any other become notifications, each topic the name of a task.
    """
    imported = 0
    journal: ImportedJournal | None = None
    try:
        with (
            _opened(file) as opened,
            writing(out),
            Progress(stderr=True) as progress,
        ):
            for message in read_mcap(opened):
                if journal is None:
                    journal = ImportedJournal(
                        out, program=os.fspath(file), begin_ns=message.wall_ns
                    )
                _add(journal, message)
                imported += 1
                if not imported % _PROGRESS:
                    progress.say(counted(imported, "message"))
            if journal is None:
                raise JournalError(f"cannot import {file}: it holds no message")
            journal.close()
    except BaseException:
        # Half a file must not pass for a whole one.
        if journal is not None:
            journal.discard()
        raise
    click.echo(f"{journal.folder}: {counted(imported, 'message')}")


def _add(journal: ImportedJournal, message: ReadMessage) -> None:
    journal.add(
        message.wall_ns,
        message.kind,
        message.sender,
        receiver=message.receiver,
        mid=message.mid,
        encoded=message.encoded,
        failed=message.failed,
    )


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise JournalError(
            f"cannot read {file}: {error.strerror}; give an MCAP file"
        ) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise JournalError with the path if a block cannot write; a context manager.

    The error of the system names a temporary file, or none at all.
    """
    try:
        yield
    except OSError as error:
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
