"""``bus pipeline``: journals judged by Spark, with tables and a report.

Spark takes seconds to start, so a person at a terminal is told what is being done; a
script hears nothing but the result.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bus.cli.check import EXIT_CODES, show_verdicts, violation_line
from bus.cli.text import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.pipeline.results import Result

__all__ = ["pipeline"]

SHOWN_PER_RULE: Final = 3

_journals = click.option(
    "--journals",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder with journals, at any depth.",
)
_out = click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the results: new, empty, or of an earlier run.",
)
_master = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs.",
)


@click.group()
def pipeline() -> None:
    """Judge recorded traffic with Spark.

    Needs Java 17 or newer and pip install "queuebroker[pipeline]".
    """


@pipeline.command("all")
@_journals
@_out
@_master
def all_(journals: Path, out: Path, master: str) -> None:
    """Tables, verdicts, violations and report, from journals.

    Ends with 0 if all verdicts are PASS, 1 if any is FAIL, 3 if some are UNKNOWN
    because a journal is incomplete.
    """
    _run(journals, out, master, report=True)


@pipeline.command()
@_journals
@_out
@_master
def check(journals: Path, out: Path, master: str) -> None:
    """The same without the report, and sooner."""
    _run(journals, out, master, report=False)


@pipeline.command()
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder with the results of a run.",
)
def report(out: Path) -> None:
    """Draw the report of an earlier run again; needs no Java."""
    from bus.pipeline.run import draw_report  # noqa: PLC0415 - slow to load

    click.echo(f"report: {draw_report(out)}")


def _run(journals: Path, out: Path, master: str, *, report: bool) -> None:
    from bus.pipeline.run import run_pipeline  # noqa: PLC0415 - slow to load

    with _progress() as progress:
        result = run_pipeline(
            journals, out, report=report, master=master, progress=progress
        )
    _show(result, out)
    warn(result.problems)
    sys.exit(EXIT_CODES[result.verdict])


def _show(result: Result, out: Path) -> None:
    from bus.pipeline.folder import OutFolder  # noqa: PLC0415 - loaded where used
    from bus.pipeline.results import first_violations  # noqa: PLC0415 - slow to load

    folder = OutFolder(out)
    show_verdicts(result.verdicts)
    shown = first_violations(folder, SHOWN_PER_RULE)
    for violation in shown:
        click.echo(violation_line(violation))
    rest = result.violations - len(shown)
    if rest > 0:
        click.echo(f"and {rest:,} more in {folder.violations}")
    if result.report is not None:
        click.echo(f"report: {result.report}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says on a terminal what is being done; elsewhere it says nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - for terminals only

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(f"{text} ...")
