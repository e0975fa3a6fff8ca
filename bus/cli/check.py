"""``bus check DIR``: the small checker's verdicts, as text or JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.text import route, route_on_bus, show_table, warn
from bus.journal.checker import check as check_journals
from bus.journal.reader import open_journals
from bus.journal.results import Result, result_fields, violation_fields
from bus.journal.rules import RULES, Verdict
from bus.journal.wording import hex64, printable

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from bus.journal.checker import CheckResult
    from bus.journal.rules import RuleVerdict
    from bus.journal.violation import Violation

__all__ = ["EXIT_CODES", "check", "show_result", "violation_line"]

EXIT_CODES: Final = {
    Verdict.PASS: 0,
    Verdict.NOTHING: 0,
    Verdict.FAIL: 1,
    Verdict.UNKNOWN: 3,
}
_COLOURS: Final = {
    Verdict.PASS.value: "green",
    Verdict.NOTHING.value: "dim",
    Verdict.FAIL.value: "bold red",
    Verdict.UNKNOWN.value: "yellow",
}


@click.command(epilog="Example: bus check bus-demo/journal")
@click.argument("directory", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--limit",
    default=10,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Show the first N violations.",
)
def check(directory: str, *, as_json: bool, limit: int) -> None:
    """Check the journals at or below DIR against the traffic rules.

    Exits with 0 if every verdict is PASS or "nothing to check", with 1 if any is FAIL,
    with 3 if some are UNKNOWN because a journal is incomplete.
    """
    found = check_journals(open_journals(directory))
    if as_json:
        click.echo(json.dumps(_fields(found)))
        warn(found.problems)
    else:
        others = f": --limit {len(found.violations)} shows all"
        show_result(found.summary, found.violations[:limit], others, directory)
    sys.exit(EXIT_CODES[found.verdict])


def show_result(
    result: Result,
    shown: Sequence[Violation],
    others: str,
    journals: str | os.PathLike[str],
) -> None:
    """Print verdicts, some violations, the number of the others, and the problems.

    A line has the command that shows the records of the first violation.

    others: how to see the violations that are not shown.
    journals: the folder that was read.
    """
    _show_verdicts(result.verdicts)
    for violation in shown:
        click.echo(violation_line(violation))
    rest = result.violations - len(shown)
    if rest > 0:
        click.echo(f"and {rest:,} more{others}")
    if shown:
        click.echo(f"inspect: {shown[0].inspect_command(journals)}")
    if result.report is not None:
        click.echo(f"report: {result.report}")
    warn(result.problems)


def _show_verdicts(verdicts: Sequence[RuleVerdict]) -> None:
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
    show_table(head, rows, colours=_COLOURS, wraps=True)


def violation_line(violation: Violation) -> str:
    """Return a violation, with the record that proves it."""
    where = f"record {violation.n} of " if violation.n is not None else ""
    journal = violation.journal
    whose = f"journal {hex64(journal)}" if journal is not None else "no journal"
    return (
        f"{violation.rule} {violation.verdict}: {_subject(violation)}"
        f"{printable(violation.explanation)} ({where}{whose})"
    )


def _subject(violation: Violation) -> str:
    if violation.flow is None:
        return ""
    if violation.origin is not None:
        way = route_on_bus(violation.sender, violation.receiver)
        number = f"{violation.sort} {violation.seq} of {way}"
        return f"{number}, registration {hex64(violation.flow)}, "
    way = route(violation.sender, violation.receiver, violation.port)
    if violation.seq is None:
        return f"channel {hex64(violation.flow >> 1)}, {way}, "
    return f"message {violation.seq} of {way}, flow {hex64(violation.flow)}, "


def _fields(found: CheckResult) -> dict[str, Any]:
    """Return the result for JSON; it has the violations instead of their number."""
    fields = result_fields(found.summary, map(attrs.asdict, found.facts))
    return fields | {"violations": list(map(violation_fields, found.violations))}
