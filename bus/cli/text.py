"""Output shared by the verbs: tables, times, problems, JSON, progress."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from bus.journal.wording import printable
from bus.model.arrays import is_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from rich.status import Status

__all__ = [
    "Progress",
    "duration",
    "ignored_line",
    "plain",
    "route",
    "route_on_bus",
    "show_table",
    "split_table",
    "table_lines",
    "to_json",
    "wall_text",
    "warn",
]


def route(sender: str, receiver: str, port: int | None) -> str:
    """Return a flow as text: its sender, its receiver, its port."""
    way = route_on_bus(sender, receiver)
    return f"{way} port {'?' if port is None else port}"


def route_on_bus(sender: str, receiver: str) -> str:
    """Return a sender and a receiver as text."""
    near, far = printable(sender) or "?", printable(receiver) or "?"
    return f"{near} -> {far}"


def duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least one."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def wall_text(wall_ns: int) -> str:
    """Return a wall-clock time in UTC, to the microsecond; "?" if it is no date."""
    if not wall_ns:
        return "?"
    seconds, rest_ns = divmod(wall_ns, 10**9)
    try:
        at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError):  # outside the calendar: a damaged clock
        return "?"
    return f"{at:%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06d}Z"


def warn(problems: Iterable[str]) -> None:
    """Print each problem as one line on stderr."""
    for problem in problems:
        click.echo(f"bus: {printable(problem)}", err=True)


def ignored_line(counts: Mapping[str, int]) -> str:
    """Return the number of ignored announcements by reason, as one line."""
    by_reason = ", ".join(
        f"{count} {printable(reason)}" for reason, count in sorted(counts.items())
    )
    return f"ignored announcements: {by_reason}"


def show_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    colours: dict[str, str] | None = None,
    wraps: bool = False,
) -> None:
    """Print a table: with rich on a terminal, else as plain columns.

    A table that is wider than the terminal is split, so that no word is cut.

    colours: on a terminal, the style of each cell whose whole text is the key.
    wraps: True if cells contain sentences: these are wrapped, and no table is split.
    """
    if sys.stdout.isatty():
        _show_rich(head, rows, colours or {}, wraps=wraps)
        return
    for line in table_lines(head, rows):
        click.echo(line)


def table_lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table in plain columns, the head first."""
    cells, numeric = _cells(rows), _numeric(head, rows)
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in (list(head), *cells):
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(padded).rstrip()


def split_table(
    head: Sequence[str], rows: Sequence[Sequence[object]], width: int
) -> Iterator[tuple[list[str], list[list[object]]]]:
    """Yield the head and the rows of each table; together these have all columns.

    Each table begins with the columns that tell the rows apart, and has at least one
    more. It is no wider than ``width`` characters, unless these already are.
    """
    cells = _cells(rows)
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    keys = _keys(cells, len(head))
    taken = keys
    for column in range(len(keys), len(head)):
        wider = [*taken, column]
        if taken != keys and sum(widths[each] + 2 for each in wider) - 2 > width:
            yield _columns(head, rows, taken)
            wider = [*keys, column]
        taken = wider
    yield _columns(head, rows, taken)


def _keys(cells: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Return the least number of columns that tell the rows apart; else the first."""
    for count in range(1, columns):
        if len({tuple(row[:count]) for row in cells}) == len(cells):
            return list(range(count))
    return [0]


def _columns(
    head: Sequence[str], rows: Sequence[Sequence[object]], taken: Sequence[int]
) -> tuple[list[str], list[list[object]]]:
    names = [head[each] for each in taken]
    return names, [[row[each] for each in taken] for row in rows]


def _cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


def _numeric(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    return [
        all(isinstance(row[column], int) for row in rows) and bool(rows)
        for column in range(len(head))
    ]


def _show_rich(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    colours: dict[str, str],
    *,
    wraps: bool,
) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to load, for terminals only
    from rich.table import Table  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    console = Console()
    parts = [(head, rows)] if wraps else split_table(head, rows, console.width)
    for names, lines in parts:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name, right in zip(names, _numeric(names, lines), strict=True):
            table.add_column(
                name, justify="right" if right else "left", overflow="fold"
            )
        for line in _cells(lines):
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in line))
        console.print(table)


def to_json(value: Any) -> str:
    """Return a value as one line of JSON that a terminal can show.

    Characters are escaped if stdout cannot encode them, or if they are unprintable and
    might control a terminal.
    """
    text = json.dumps(plain(value), allow_nan=False, ensure_ascii=False)
    if text.isascii():
        return text
    return "".join(c if _is_carried(c) else json.dumps(c)[1:-1] for c in text)


def _is_carried(character: str) -> bool:
    if character.isascii():
        return True
    try:
        character.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return character.isprintable()


def plain(value: Any) -> Any:
    """Return a payload as values that JSON has.

    Bytes become ``{"base64": ...}``, arrays become lists in one another, and a number
    that is not finite becomes text.
    """
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, memoryview):
        return plain(value.tolist() if is_array(value) else bytes(value))
    if isinstance(value, bytes):
        from base64 import b64encode  # noqa: PLC0415 # bytes are rare

        return {"base64": b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value


class Progress:
    """A status line, on a terminal only; a context manager for use by one thread.

    stderr: show it on stderr, for verbs that print only their result to stdout.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self._stderr = stderr
        self._status: Status | None = None

    def __enter__(self) -> Self:
        stream = sys.stderr if self._stderr else sys.stdout
        if stream is not None and stream.isatty():  # None: closed by the parent
            from rich.console import Console  # noqa: PLC0415 - for terminals only

            self._status = Console(stderr=self._stderr).status("…")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, text: str) -> None:
        """Replace the text of the status line; do nothing without a terminal."""
        if self._status is not None:
            self._status.update(f"{text} …")

    def print_line(self, line: str) -> None:
        """Print a permanent line."""
        if self._status is not None:
            self._status.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=self._stderr)
