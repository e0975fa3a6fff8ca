"""``bus pipeline``: Spark checks journals, and writes tables and a report.

Spark takes seconds to start, so a terminal shows the progress; without a terminal only
the result is printed.
"""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path
from typing import Final

import click

from bus.cli.check import EXIT_CODES, show_result
from bus.cli.live import joined, live_options
from bus.cli.target import Target
from bus.cli.text import Progress, to_json, warn
from bus.journal.results import first_of_each
from bus.journal.wording import counted
from queuebroker import _sync

__all__ = ["pipeline"]

SHOWN_PER_RULE: Final = 3
GATEWAY_POLL_S: Final = 0.01

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
    help="Folder for the results: new, empty, or that of an earlier run.",
)
_master = click.option(
    "--master",
    metavar="URL",
    help="Spark master.  [default: that of spark-submit, else local[*]]",
)


def _settings(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    settings = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.startswith("spark."):
            msg = f"{one!r} is not a Spark setting; write it as spark.NAME=VALUE"
            raise click.BadParameter(msg)
        settings[name] = value
    return settings


_conf = click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="A Spark setting; may be repeated. It overrides the defaults of this command.",
)


@click.group(
    epilog="Example: bus pipeline all --journals bus-demo/journal --out checked"
)
def pipeline() -> None:
    """Check recorded traffic with Spark.

    Requires Java 17 or newer and pip install ".[pipeline]" in a clone.
    """


@pipeline.command("all")
@_journals
@_out
@_master
@_conf
def all_(
    journals: Path, out: Path, master: str | None, settings: dict[str, str]
) -> None:
    """Check journals; write tables, verdicts, violations and a report.

    Exits with 0 if every verdict is PASS or "nothing to check", with 1 if any is FAIL,
    with 3 if some are UNKNOWN because a journal is incomplete.
    """
    _run(journals, out, master, settings, report=True)


@pipeline.command()
@_journals
@_out
@_master
@_conf
def check(
    journals: Path, out: Path, master: str | None, settings: dict[str, str]
) -> None:
    """Check journals; write tables, verdicts and violations only."""
    _run(journals, out, master, settings, report=False)


@pipeline.command()
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder with the results of a run.",
)
@click.option(
    "--against",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder with the results of another run, to compare with.",
)
def report(out: Path, against: Path | None) -> None:
    """Redraw the report of an earlier run; requires no Java."""
    from bus.pipeline.run import draw_report  # noqa: PLC0415 - slow to load

    click.echo(f"report: {draw_report(out, against)}")


def _run(
    journals: Path,
    out: Path,
    master: str | None,
    settings: dict[str, str],
    *,
    report: bool,
) -> None:
    from bus.pipeline.folder import OutFolder  # noqa: PLC0415 - loaded where used
    from bus.pipeline.run import run_pipeline  # noqa: PLC0415 - slow to load

    with Progress(stderr=True) as progress:
        result = run_pipeline(
            journals,
            out,
            report=report,
            master=master,
            settings=settings,
            progress=progress.say,
        )
    shown = list(first_of_each(SHOWN_PER_RULE, result.first))
    show_result(result, shown, f" in {OutFolder(out).violations}", journals)
    sys.exit(EXIT_CODES[result.verdict])


@pipeline.command(
    epilog="Example: bus pipeline gateway outgoing --bus house",
)
@click.argument("folder", type=click.Path(path_type=Path))
@live_options(None)
def gateway(target: Target, folder: Path) -> None:
    """Publish on a bus the rows that queries write to FOLDER.

    A query writes there with writeStream.format("queuebroker").start(FOLDER). Each row
    is a notification. Runs until Ctrl-C, SIGTERM or --timeout, and then prints the
    number of messages.
    """
    from bus.pipeline.gateway import Gateway  # noqa: PLC0415 - loaded where used
    from bus.pipeline.spool import Spool  # noqa: PLC0415 - slow to load

    stopped: list[int] = []
    # Not an exception: it would end the publication of a claimed batch.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    now = _sync.monotonic()
    until = now + target.timeout_s if target.timeout_s is not None else math.inf
    spool, published = Spool.at(folder), 0
    with spool.locked(), joined(target) as bus:
        thread = bus.here()
        publisher = Gateway(spool, bus, lambda line: warn([line]))
        while not stopped and _sync.monotonic() < until:
            published += publisher.publish()
            thread.poll(GATEWAY_POLL_S)
        dropped = sum(task.no_subscriber for task in bus.tasks())
    if target.as_json:
        click.echo(to_json({"published": published, "no_subscriber": dropped}))
    else:
        shown = counted(published, "message")
        click.echo(f"published {shown}, {dropped} without a subscriber")
