"""``bus check DIR``: the small checker's verdicts, as text or JSON.

With ``--follow``, each violation first, as soon as records prove it.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.exits import ERROR, fail, interruptible
from bus.cli.live import joined, live_options, unserved
from bus.cli.target import Target
from bus.cli.text import route, route_on_bus, show_table, warn
from bus.errors import BusError
from bus.journal.checker import check as check_journals
from bus.journal.live_check import LiveCheck
from bus.journal.reader import open_journals
from bus.journal.results import Result, result_fields, violation_fields
from bus.journal.rules import RULES, Verdict
from bus.journal.wording import counted, hex64, printable
from queuebroker import _sync

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from bus.api.task import Task
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
_NO_TARGET: Final = Target("", None, as_json=False, timeout_s=None)
_POLL_S: Final = 0.02
_COLOURS: Final = {
    Verdict.PASS.value: "green",
    Verdict.NOTHING.value: "dim",
    Verdict.FAIL.value: "bold red",
    Verdict.UNKNOWN.value: "yellow",
}


@click.command(epilog="Example: bus check bus-demo/journal")
@click.argument("directory", metavar="DIR")
@click.option(
    "--follow",
    is_flag=True,
    help="Read on while the journals grow, and print violations as they are proven.",
)
@click.option(
    "--limit",
    default=10,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Show the first N violations.",
)
@live_options(None, bus=None)
def check(target: Target, directory: str, *, limit: int, follow: bool) -> None:
    """Check the journals at or below DIR against the traffic rules.

    Exits with 0 if every verdict is PASS or "nothing to check", with 1 if any is FAIL,
    with 3 if some are UNKNOWN because a journal is incomplete.

    With --follow, reads on until Ctrl-C, SIGTERM or --timeout, and then prints the
    verdicts. With --bus, the task "checker" of that bus notifies each violation, too.
    """
    if not follow and attrs.evolve(target, as_json=False) != _NO_TARGET:
        raise click.UsageError("--bus, --timeout and the like need --follow")
    try:
        if follow:
            _follow(target, directory)
        found = check_journals(open_journals(directory))
    except BusError as error:
        fail(str(error), ERROR)  # 1 is a verdict
    if target.as_json:
        click.echo(json.dumps(_fields(found)))
        warn(found.problems)
    else:
        others = f": --limit {len(found.violations)} shows all"
        show_result(found.summary, found.violations[:limit], others, directory)
    sys.exit(EXIT_CODES[found.verdict])


def _follow(target: Target, directory: str) -> None:
    """Print each violation when it is proven, until the time is up or an interrupt."""
    live = LiveCheck(directory)
    never = _sync.Lock()
    never.acquire()
    with interruptible(), ExitStack() as stack:
        try:
            bus = here = checker = None
            if target.bus:
                if message := unserved(target):
                    warn([f"{message}; until one does, nothing is notified"])
                bus = stack.enter_context(joined(target, patient=True))
                here = bus.here()
                checker = bus.register("checker", thread=here)
            until = target.deadline()
            while (now := _sync.monotonic()) < until:
                found = live.advance()
                for violation in found or ():
                    _report(violation, checker, as_json=target.as_json)
                wait_s = 0.0 if found is not None else min(_POLL_S, until - now)
                if here is not None:
                    here.poll(wait_s)
                else:
                    _sync.park(never, bool, now + wait_s)
        except KeyboardInterrupt:
            pass  # the regular end
        missed = sum(task.no_subscriber for task in bus.tasks()) if bus else 0
        if missed:
            shown = counted(missed, "violation")
            warn([f"{shown} had no subscriber on bus {target.bus!r}"])


def _report(violation: Violation, checker: Task | None, *, as_json: bool) -> None:
    fields = violation_fields(violation)
    click.echo(json.dumps(fields) if as_json else violation_line(violation))
    if checker is not None:
        try:
            checker.notify(fields)
        except BusError as error:
            warn([f"a violation was not notified: {error}"])


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
