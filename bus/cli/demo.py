"""``bus demo``: take stock of a folder, recorded, compared and checked.

What the tasks do is in `bus.demo`; here is what a person sees of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bus.demo.plant import FAULTS

if TYPE_CHECKING:
    from bus.demo.files import FileList
    from bus.demo.messages import News
    from bus.demo.run import Outcome

__all__ = ["demo"]

FAILED: Final = 1
USAGE: Final = 2
LARGEST: Final = 3


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option(
    "--seconds",
    default=0.0,
    metavar="N",
    type=click.FloatRange(min=0),
    help="Go over the list again until N seconds have passed.",
)
@click.option(
    "--out",
    default=Path("bus-demo"),
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the record, the tables, the verdicts and the report.",
)
@click.option(
    "--plant",
    metavar="FAULT",
    type=click.Choice(sorted(FAULTS)),
    help=f"Let one channel misbehave once: {', '.join(sorted(FAULTS))}.",
)
def demo(path: Path | None, seconds: float, out: Path, plant: str | None) -> None:
    """Take stock of the files below PATH with tasks on channels.

    Without PATH, of Python's standard library. The result is compared with a plain
    serial run, and the record of every message is checked. Ends with 0 if all is
    equal and every verdict is PASS, else with 1, or 3 if some are only UNKNOWN.
    """
    from bus.demo.check import check, claim  # noqa: PLC0415 - slow to load
    from bus.demo.files import list_files  # noqa: PLC0415 - likewise
    from bus.demo.run import take_stock  # noqa: PLC0415 - likewise
    from bus.errors import DemoError  # noqa: PLC0415 - likewise

    try:
        files = list_files(path)
        folder = claim(out)
    except DemoError as error:
        # Nothing was begun: a wrong word on the command line, not a verdict.
        click.echo(f"bus: {error}", err=True)
        sys.exit(USAGE)
    console = Progress(files)
    outcome = take_stock(
        files, folder.journals, seconds=seconds, fault=plant, news=console.tell
    )
    console.close()
    equal = _show(files, outcome)
    code = check(folder)
    sys.exit(code if equal else FAILED)
