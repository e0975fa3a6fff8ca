"""``bus pipeline``: Spark checks journals, and writes tables and a report.

Spark takes seconds to start, so a terminal shows the progress; without a terminal only
the result is printed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.check import EXIT_CODES, show_result
from bus.cli.exits import interruptible
from bus.cli.live import joined, live_options
from bus.cli.target import Target
from bus.cli.text import Progress, to_json, warn
from bus.journal.results import first_of_each
from bus.journal.wording import counted
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable

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
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            msg = f"{text!r} is not a Spark setting; write it as spark.NAME=VALUE"
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


_jobs = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Processors of this machine to use; short for --master local[N].",
)


def _size(_: object, __: object, text: str | None) -> str | None:
    # A wrong one would appear only as a Java that does not start.
    if text is not None and not re.fullmatch("[1-9][0-9]*[kmgt]", text.lower()):
        raise click.BadParameter(f"{text!r} is no size: give one such as 512m or 4g")
    return text


_memory = click.option(
    "--memory",
    metavar="SIZE",
    callback=_size,
    help="Memory for the Java of Spark on this machine, such as 4g; short for"
    " --conf spark.driver.memory=SIZE.  [default: half of all, at most 4g]",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a run to a verb."""
    for option in (_json, _conf, _master, _memory, _jobs, _out, _journals):
        command = option(command)
    return command


@click.group(
    epilog="Example: bus pipeline all --journals bus-demo/journal --out checked"
)
def pipeline() -> None:
    """Check recorded traffic with Spark.

    Requires Java 17 or newer and pip install ".[pipeline]" in a clone.
    """


@pipeline.command("all")
@_options
def all_(**options: Any) -> None:
    """Check journals; write tables, verdicts, violations and a report.

    A later run with the same --out reads only new records. If there are none, it
    repeats the verdicts.

    Exits with 0 if every verdict is PASS or "nothing to check", with 1 if any is FAIL,
    with 3 if some are UNKNOWN because a journal is incomplete.
    """
    _run(**options, report=True)


@pipeline.command()
@_options
def check(**options: Any) -> None:
    """Check journals; write tables, verdicts and violations only."""
    _run(**options, report=False)


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
    *,
    journals: Path,
    out: Path,
    jobs: int | None,
    memory: str | None,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
    report: bool,
) -> None:
    from bus.pipeline.folder import OutFolder  # noqa: PLC0415 - loaded where used
    from bus.pipeline.run import run_pipeline  # noqa: PLC0415 - slow to load

    if jobs is not None:
        if master is not None:
            msg = "--jobs is for this machine, and --master names another place"
            raise click.UsageError(msg)
        master = f"local[{jobs}]"
    if memory is not None:
        settings = {"spark.driver.memory": memory} | settings
    with Progress(stderr=True) as progress:
        result = run_pipeline(
            journals,
            out,
            report=report,
            master=master,
            settings=settings,
            progress=progress.show,
        )
    folder = OutFolder(out)
    if as_json:
        from bus.pipeline.results import read_verdicts  # noqa: PLC0415 - needs pyarrow

        click.echo(to_json(read_verdicts(folder) | result.amounts))
        warn(result.problems)
    else:
        shown = list(first_of_each(SHOWN_PER_RULE, result.first))
        show_result(result, shown, f" in {folder.violations}", journals)
        click.echo(result.news)
    sys.exit(EXIT_CODES[result.verdict])


@pipeline.command(
    epilog="Example: bus pipeline gateway outgoing --bus house",
)
@click.argument("folder", type=click.Path(path_type=Path))
@live_options(None)
def gateway(target: Target, folder: Path) -> None:
    """Publish on a bus the rows that queries write to FOLDER.

    A query writes there with writeStream.format("queuebroker").start(FOLDER). Each row
    becomes a notification. Runs until Ctrl-C or SIGTERM, or for --timeout seconds, and
    then prints the number of messages.
    """
    from bus.pipeline.gateway import Gateway  # noqa: PLC0415 - loaded where used
    from bus.pipeline.spool import Spool  # noqa: PLC0415 - slow to load

    stopped: list[int] = []
    until = target.deadline()
    published = 0
    with (
        # No exception: it would end the publication of a claimed batch.
        interruptible(lambda number, _: stopped.append(number)),
        # The bus before the spool: a wrong name must leave no folder.
        joined(target) as bus,
        (spool := Spool.at(folder)).locked(),
    ):
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
