"""``bus journal snapshot`` and ``diff``: the end of a recording, and two of them."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.chosen import choice_options, parsed_time
from bus.cli.journal_files import kind_option, refuse_existing, writing
from bus.cli.text import show_table, to_json, wall_text, warn
from bus.journal.difference import compare
from bus.journal.messages import KINDS, read_messages
from bus.journal.reader import open_journals
from bus.journal.snapshot import take_snapshot
from bus.journal.wording import counted, hex64, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.cli.chosen import Chosen, Time
    from bus.journal.difference import Compared, Position
    from bus.journal.messages import RecordedMessage

__all__ = ["copy_end", "diff"]

_DIFFERENT: Final = 1
_ERROR: Final = 4
_HEAD: Final = ("sender", "kind", "in A", "in B", "equal", "result")
_COLOURS: Final = {"equal": "green", "different": "bold red"}


def _duration_ns(context: click.Context, option: click.Parameter, text: str) -> int:
    time: Time | None = None
    with suppress(click.BadParameter):  # it describes times, which are refused here
        time = parsed_time(context, option, text)
    if time is None or time.base != "end":
        raise click.BadParameter(f"{text!r} is no duration: give one such as 5m or 90s")
    return -time.ns


@click.command(
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
    help="Copy at least so much before the last record, such as 5m.",
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

    The recorded programs go on. Whole segments are copied, with their payloads, so the
    copy begins earlier; its beginning counts as missing in verdicts. Exits with 4 if a
    file could not be copied.
    """
    refuse_existing(out)
    try:
        with writing(out):
            taken = take_snapshot(directory, out, last_ns)
    except BaseException:
        # A part must not pass for the whole, nor refuse the next attempt.
        shutil.rmtree(out, ignore_errors=True)
        raise
    parts = (
        counted(taken.journals, "journal"),
        counted(taken.segments, "segment"),
        counted(taken.records, "record"),
        counted(taken.payload_files, "payload file"),
    )
    click.echo(f"{out}: {', '.join(parts)}")
    warn(taken.problems)
    sys.exit(_ERROR if taken.problems else 0)


@click.command(epilog="Example: bus journal diff recorded replayed --kind notification")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@choice_options
@kind_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def diff(
    first: str, second: str, *, chosen: Chosen, kinds: tuple[str, ...], as_json: bool
) -> None:
    """Compare the messages of the recordings A and B.

    For each sender and kind, the n-th message in A is compared with the n-th in B:
    receiver, size, and payload if both have it; not the times. Exits with 1 if any
    differ, else with 4 if a file could not be read.
    """
    problems: list[str] = []

    def messages(directory: str) -> Iterator[RecordedMessage]:
        since_ns, until_ns = chosen.range_ns(open_journals(directory))
        return read_messages(
            directory,
            names=chosen.names,
            since_ns=since_ns,
            until_ns=until_ns,
            kinds=kinds or KINDS,
            on_problem=problems.append,
        )

    results = compare(messages(first), messages(second))
    if as_json:
        for each in results:
            click.echo(to_json(_fields(each)))
    else:
        _show(results, first, second)
    warn(problems)
    if any(each.different for each in results):
        sys.exit(_DIFFERENT)
    sys.exit(_ERROR if problems else 0)


def _show(results: list[Compared], first: str, second: str) -> None:
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
            click.echo(f"  A: {_place(each.first, first)}")
            click.echo(f"  B: {_place(each.second, second)}")
    by_size = sum(each.by_size for each in results)
    if by_size:
        lack = "A or B lacks their payload"
        click.echo(f"{counted(by_size, 'message')} compared by size only: {lack}")
    unequal = sum(each.different for each in results)
    click.echo(
        f"{counted(len(results), 'sequence')} compared, {unequal:,} different"
        if results
        else "no messages to compare"
    )


def _place(position: Position | None, directory: str) -> str:
    if position is None:
        return "no such message"
    to = f" to {printable(position.receiver)}" if position.receiver else ""
    record = f"record {position.n} of journal {hex64(position.journal)}"
    when = wall_text(position.wall_ns)
    return f"{when}{to}, {position.size:,} bytes, {record} in {printable(directory)}"


def _fields(each: Compared) -> dict[str, Any]:
    count_a, count_b = each.counts
    return {
        "sender": each.sender,
        "kind": each.kind,
        "a": count_a,
        "b": count_b,
        "equal": each.equal,
        "by_size": each.by_size,
        "different": each.different,
        "first_in_a": _position_fields(each.first),
        "first_in_b": _position_fields(each.second),
    }


def _position_fields(position: Position | None) -> dict[str, Any] | None:
    if position is None:
        return None
    fields = attrs.asdict(position, filter=lambda field, _: field.name != "digest")
    return fields | {"journal": hex64(position.journal)}
