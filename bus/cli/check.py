"""``bus check DIR``: the small checker's verdicts, for people or as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.text import id_text, printable, route, show_table, warn
from bus.journal.checker import check as check_journals
from bus.journal.reader import open_journals
from bus.journal.rules import RULES, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.journal.checker import CheckResult
    from bus.journal.rules import RuleVerdict, Violation

__all__ = ["EXIT_CODES", "check", "show_verdicts", "violation_line"]

EXIT_CODES: Final = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 3}
_COLOURS: Final = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "yellow"}


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option(
    "--limit",
    default=10,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Show the first N violations.",
)
def check(directory: str, *, as_json: bool, limit: int) -> None:
    """Hold the journals at or below DIR to their promises.

    Ends with 0 if all verdicts are PASS, 1 if any is FAIL, 3 if some are UNKNOWN
    because a journal is incomplete.
    """
    result = check_journals(open_journals(directory))
    if as_json:
        click.echo(json.dumps(_as_json(result)))
    else:
        _show(result, limit)
    warn(result.problems)
    sys.exit(EXIT_CODES[result.verdict])


def _show(result: CheckResult, limit: int) -> None:
    show_verdicts(result.verdicts)
    for violation in result.violations[:limit]:
        click.echo(violation_line(violation))
    rest = len(result.violations) - limit
    if rest > 0:
        click.echo(f"and {rest} more: --limit {len(result.violations)} shows all")


def show_verdicts(verdicts: Sequence[RuleVerdict]) -> None:
    """Write the table of verdicts."""
    head = ("rule", "promise", "verdict", "checked", "violated", "unknown", "why")
    rows = [
        (
            each.rule,
            RULES[each.rule].title,
            each.verdict.value,
            each.checked,
            each.violated,
            each.unknown,
            each.why,
        )
        for each in verdicts
    ]
    show_table(head, rows, colours=_COLOURS)


def violation_line(violation: Violation) -> str:
    """One violation in one line, for people."""
    where = f"record {violation.n} of " if violation.n is not None else ""
    journal = violation.journal
    whose = f"journal {id_text(journal)}" if journal is not None else "no journal"
    return (
        f"{violation.rule} {violation.verdict}: {_subject(violation)}"
        f"{printable(violation.explanation)} ({where}{whose})"
    )


def _subject(violation: Violation) -> str:
    if violation.flow is None:
        return ""
    way = route(violation.sender, violation.receiver, violation.port)
    if violation.seq is None:
        return f"channel {id_text(violation.flow >> 1)}, {way}, "
    return f"message {violation.seq} of {way}, flow {id_text(violation.flow)}, "


def _as_json(result: CheckResult) -> dict[str, Any]:
    return {
        "verdict": result.verdict.value,
        "verdicts": [attrs.asdict(each) for each in result.verdicts],
        "violations": [_in_hex(attrs.asdict(each)) for each in result.violations],
        "journals": [_in_hex(attrs.asdict(each)) for each in result.facts],
        "problems": list(result.problems),
    }


def _in_hex(fields: dict[str, Any]) -> dict[str, Any]:
    """With 64-bit identifiers as text: JSON readers make floats of such numbers."""
    return {
        name: id_text(value)
        if name in ("journal", "flow") and value is not None
        else value
        for name, value in fields.items()
    }
