"""`Finding`: the result of one check of ``bus doctor``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import attrs
import click

from bus.cli.exits import FAILED
from bus.cli.text import show_table, to_json
from bus.journal.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FAIL", "OK", "WARN", "Finding", "end_with"]

OK: Final = "ok"
WARN: Final = "warn"  # an optional item is missing
FAIL: Final = "fail"  # no bus can run here, or a machine cannot be linked
_COLOURS: Final = {OK: "green", WARN: "yellow", FAIL: "bold red"}


@attrs.frozen
class Finding:
    """The result of one check.

    what: the item that was checked.
    state: `OK`, `WARN` or `FAIL`.
    do: the remedy; empty if none is needed.
    """

    what: str
    state: str
    fact: str
    do: str = ""


def end_with(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings; exit with 1 if one is a failure."""
    if as_json:
        click.echo(to_json([attrs.asdict(each) for each in findings]))
    else:
        show_table(
            ("what", "state", "fact", "remedy"),
            [
                (each.what, each.state, printable(each.fact), printable(each.do))
                for each in findings
            ],
            colours=_COLOURS,
            wraps=True,
        )
    if any(each.state == FAIL for each in findings):
        sys.exit(FAILED)
