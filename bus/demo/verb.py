"""``bus demo``: tasks index a folder; the result is compared, the record checked.

The tasks are in `bus.demo`; this module has the options and the output. Exit codes: 0
if the result equals the serial run and every verdict is PASS, 1 if not, 3 if a verdict
is only UNKNOWN; 4, as for every verb, if there is nothing to read or no folder to
write to. The checker in Python decides; Spark checks again, and must agree.

Progress and events of the demo, as text.

Progress is shown in the status line. Events, such as a worker that disconnected, are
printed as permanent lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from bus.cli.check import EXIT_CODES, show_result, violation_line
from bus.cli.numbers import FiniteRange
from bus.cli.text import Progress, warn
from bus.demo.faults import DEEDS, FAULTS
from bus.demo.files import list_files
from bus.demo.messages import Damaged, HungUp, Linked, PassDone, Rescued, Took
from bus.demo.worker_group import (
    BUS,
    FAR,
    NEAR,
    PROCESSES_MAX,
    parts_of,
    parts_on_two_machines,
    worker_with_fault,
)
from bus.journal.checker import check as check_journals
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.wording import counted, printable
from queuebroker import _net

if TYPE_CHECKING:
    from bus.demo.files import FileList
    from bus.demo.messages import Event
    from bus.demo.run import Outcome
    from bus.journal.checker import CheckResult
    from bus.pipeline.folder import OutFolder

__all__ = ["Ticker", "demo"]

# The code that a program needs without the bus, shown once for each event.
_OTHERWISE: Final = {
    HungUp: "no message was lost; without the bus, that takes receipts and a drain",
    Rescued: (
        "the bus reports which commands were started, and which are in doubt; without"
        " it, that takes heartbeats, timeouts, and a table of open requests"
    ),
}
# The outcome that the bus reports for a lost worker's file, and its meaning.
_HELD: Final = {"in doubt": "not acknowledged", "peer lost": "started, not answered"}
_LINKED: Final = {
    "cut": f"the link between {NEAR} and {FAR} is cut: no byte passes, nothing closes",
    "lost": f"after {{:.1f}} s of silence, {NEAR} reports each worker in {FAR} lost",
    "healed": "after {:.1f} s, the link is whole again",
    "restored": f"{{:.1f}} s later, {NEAR} reports each worker in {FAR} again",
}


class Ticker:
    """Shows the events of the tasks, and the progress of the pass.

    two_machines: True if a lost worker was not killed, but cut off from this machine.
    """

    def __init__(
        self, files: FileList, progress: Progress, *, two_machines: bool = False
    ) -> None:
        self._files = files
        self._progress = progress
        self._fate = "was cut off" if two_machines else "was killed"
        self._taken: set[int] = set()
        self._bytes = 0
        self._otherwise = dict(_OTHERWISE)

    def tell(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Took(pass_number=number, index=index, size=size):
                # After an outage two workers may do one file.
                if index not in self._taken:
                    self._taken.add(index)
                    self._bytes += size
                self._progress.show(
                    f"pass {number}: {len(self._taken):,} of"
                    f" {counted(len(self._files), 'file')},"
                    f" {self._bytes / 1e6:,.1f} MB"
                )
            case PassDone():
                self._taken.clear()
                self._bytes = 0
            case Damaged(worker=worker):
                self._progress.print_line(
                    f"a file from {worker} arrived damaged: {worker} sends it again"
                )
            case HungUp(worker=worker, drained=drained, unfinished=unfinished):
                name = printable(self._files.paths[unfinished])
                self._progress.print_line(
                    f"{worker} disconnected in the middle of {name}: the collector"
                    f" drained {counted(drained, 'message')} after that, another"
                    " worker did the file"
                )
            case Rescued(worker=worker, index=index, told=told, by=by):
                name = printable(self._files.paths[index])
                again = "again" if by == worker else "instead"
                self._progress.print_line(
                    f"{worker} {self._fate}; reported for {name}: {told}"
                    f" ({_HELD[told]}); {by} did the file {again}"
                )
            case Linked(event=change, seconds=seconds):
                self._progress.print_line(_LINKED[change].format(seconds))
        if (otherwise := self._otherwise.pop(type(event), None)) is not None:
            self._progress.print_line(f"  {otherwise}")


_IN_THREADS: Final = (
    f"1 process on bus {BUS}, with workers in threads: this system has no UNIX sockets,"
    " which link processes"
)

CONTROL: Final = "reorder"  # the fault of the control run, which the check must find
FAILED: Final = 1
FEW: Final = 60  # the number of its files
LARGEST: Final = 3
NAMED: Final = 5
PROCESSES: Final = 4  # one worker is killed, one disconnects, one completes the work
PROCESSES_OF_TWO: Final = 5  # two workers on each of two machines
PROCESSES_OF_TWO_MIN: Final = 3
SHOWN: Final = 10


@click.command(epilog="Example: bus demo --plant reorder --no-spark")
@click.argument("path", required=False, type=click.Path())
@click.option(
    "--seconds",
    default=0.0,
    metavar="N",
    type=FiniteRange(min=0),
    help="Repeat the list until N seconds have passed.",
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(min=1, max=PROCESSES_MAX),
    help=(
        "Use N processes: this one, and one for each worker. With 1: workers in"
        " threads.  [default: 4, or 5 with two machines; on Windows 1]"
    ),
)
@click.option(
    "--machines",
    default=1,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 2),
    help="With 2: use two machines on this host, whose link is cut for some seconds.",
)
@click.option(
    "--out",
    default="bus-demo",
    show_default=True,
    metavar="DIR",
    type=click.Path(),
    help="Folder for the record, the tables, the verdicts and the report.",
)
@click.option(
    "--plant",
    metavar="FAULT",
    type=click.Choice(sorted(FAULTS)),
    help=f"Inject one fault into a queue: {', '.join(sorted(FAULTS))}.",
)
@click.option(
    "--no-spark", is_flag=True, help="Do not check again with Spark: no report."
)
def demo(
    path: str | None,
    seconds: float,
    processes: int | None,
    machines: int,
    out: str,
    plant: str | None,
    *,
    no_spark: bool,
) -> None:
    """Index the files below PATH with tasks on a bus.

    PATH is Python's standard library by default. The result is compared with a plain
    serial run. Content is sent over queues; commands, answers and notifications are
    sent over the bus. Every message is recorded, and the record is checked.

    When most files are done, one worker process is killed, and one disconnects in the
    middle of a file. The others repeat the unfinished files of these two. The bus is
    named demo and open to other verbs meanwhile: bus tree --bus demo.

    With --machines 2, half of the workers are on a second machine: a name and a run
    directory of this host. The two machines find each other by discovery and link by
    TLS, with keys made for this run. Instead of a worker, their link fails: nothing
    passes it for some seconds. Needs the extra "net", and no root.
    """
    if machines > 1:
        processes = _processes_of_two_machines(processes, plant)
    elif processes is None and _net.HAS_UNIX:
        processes = PROCESSES
    elif processes == 1:
        processes = None
    if plant == "half" and processes is not None and not _spares(processes):
        msg = "--plant half removes a worker: it needs --processes 4 or more"
        raise click.UsageError(msg)
    from bus.pipeline.folder import claimed  # noqa: PLC0415 - loaded where used

    files = list_files(None if path is None else Path(path), without=Path(out))
    with claimed(Path(out)) as folder:
        code = _take_inventory(files, folder, seconds, processes, machines, plant)
        if not no_spark:
            code = _check_again(folder, code)
    sys.exit(code)


def _take_inventory(
    files: FileList,
    folder: OutFolder,
    seconds: float,
    processes: int | None,
    machines: int,
    plant: str | None,
) -> int:
    """Run the demo, and print its results; return the exit code."""
    from bus.demo.checks import check_record, clear, journals_of  # noqa: PLC0415 - likewise
    from bus.demo.collector import COLLECTOR, CONTENT  # noqa: PLC0415 - slow to load
    from bus.demo.run import take_inventory  # noqa: PLC0415 - likewise
    from bus.demo.threads import LEAVER  # noqa: PLC0415 - likewise

    journals = journals_of(folder)
    own = Path()
    click.echo(f"indexing {printable(files.title)}")
    warn(files.problems)
    if plant is not None:
        planted = (
            LEAVER
            if processes is None
            else worker_with_fault(parts_of(processes - 1, 1))
        )
        click.echo(
            f"planted fault: {plant}, between {planted} and {COLLECTOR},"
            f" port {CONTENT}: {DEEDS[plant]}"
        )
    with Progress() as progress:

        def begun(journal: Path, network: Path | None) -> None:
            nonlocal own
            own = journal
            clear(folder, own)
            if machines > 1:
                assert processes is not None
                progress.print_line(_two_machines(processes))
                where = f"--bus {BUS} --network {network}"
                progress.print_line(f"watch both in a browser: bus web {where} --open")
            elif processes is not None:
                progress.print_line(_processes(processes))
            elif not _net.HAS_UNIX:
                progress.print_line(_IN_THREADS)

        outcome = take_inventory(
            files,
            journals,
            seconds=seconds,
            processes=processes,
            machines=machines,
            fault=plant,
            begun=begun,
            on_event=Ticker(files, progress, two_machines=machines > 1).tell,
        )
    _show_outage(outcome)
    _show_found(files, outcome)
    _show_comparison(files, outcome)
    result = check_record(folder, own, processes or 1)
    click.echo(
        "recorded: the content sent to the collector, its receipts, and all messages"
        " on the bus"
    )
    shown = result.violations[:SHOWN]
    show_result(result.summary, shown, " in violations.jsonl", journals)
    if result.verdict is Verdict.UNKNOWN:
        why = "a process without a journal took part, such as bus web"
        click.echo(f"{why}: its messages cannot be judged")
    if plant is not None:
        click.echo(f"planted fault: {plant}, {_finders(result)}")
        found = result.verdict is Verdict.FAIL
    else:
        found = _finds_a_fault(files)
    return EXIT_CODES[result.verdict] if outcome.equal and found else FAILED


def _finds_a_fault(files: FileList) -> bool:
    """Run again with a few files and an injected fault; show how the record proves it.

    A check that always passes would prove nothing.
    """
    from bus.demo.run import take_inventory  # noqa: PLC0415 - slow to load

    few = attrs.evolve(files, paths=files.paths[:FEW])
    with tempfile.TemporaryDirectory() as folder:
        outcome = take_inventory(few, Path(folder), fault=CONTROL)
        result = check_journals(open_journals(folder))
    click.echo(
        f"a second run with a planted fault, on {counted(len(few), 'file')}:"
        f" {DEEDS[CONTROL]}"
    )
    for violation in result.violations[:1]:
        click.echo(f"  {violation_line(violation)}")
    click.echo(f"  {_finders(result)}")
    return outcome.equal and result.verdict is Verdict.FAIL


def _check_again(folder: OutFolder, code: int) -> int:
    """Check the record with Spark, which draws the report; return the exit code.

    code: that of the check in Python.
    """
    from bus.demo.checks import check_with_spark, journals_of  # noqa: PLC0415 - slow to load
    from bus.pipeline.session import missing  # noqa: PLC0415 - likewise

    lack = missing()
    if lack is not None:
        click.echo(f"no report: {lack}")
        return code
    before = folder.verdicts.read_bytes()
    click.echo(
        "checking the record again with Spark, by an independent implementation of the"
        " rules, and drawing the report; this takes one or two minutes"
    )
    with Progress() as progress:
        result = check_with_spark(folder, progress.show)
    if _verdicts(before) == _verdicts(folder.verdicts.read_bytes()):
        click.echo(f"Spark: the same verdicts\nreport: {result.report}")
        return code
    click.echo("Spark: DIFFERENT VERDICTS")
    journals = journals_of(folder)
    show_result(result, result.first[:SHOWN], " in violations.jsonl", journals)
    return FAILED


def _verdicts(written: bytes) -> list[tuple[str, str]]:
    """Return each rule with its verdict, from the content of ``verdicts.json``."""
    return [(each["rule"], each["verdict"]) for each in json.loads(written)["verdicts"]]


def _spares(processes: int) -> bool:
    """Return True if a worker remains after the one with the injected fault leaves."""
    return any(part.leaves for part in parts_of(processes - 1, files=1))


def _processes(count: int) -> str:
    """Return a line with the number of processes, and the planned failures."""
    parts = parts_of(count - 1, files=1)
    planned = [
        *(f"{part.name} will be killed" for part in parts if part.dies),
        *(f"{part.name} will disconnect" for part in parts if part.leaves),
    ]
    none = "the only worker is not killed and does not disconnect"
    return f"{count} processes on bus {BUS}: {', '.join(planned) or none}"


def _processes_of_two_machines(processes: int | None, plant: str | None) -> int:
    """Return the number of processes on two machines.

    Raises:
        click.UsageError: the options exclude each other.
    """
    if plant is not None:
        raise click.UsageError("--plant needs --machines 1: the cut is the fault here")
    if processes is None:
        return PROCESSES_OF_TWO
    if processes < PROCESSES_OF_TWO_MIN:
        msg = f"--machines 2 needs --processes {PROCESSES_OF_TWO_MIN} or more"
        raise click.UsageError(f"{msg}: a worker on each machine")
    return processes


def _two_machines(count: int) -> str:
    """Return a line with the two machines, and the workers of each."""
    names: dict[str | None, list[str]] = {NEAR: ["this process"], FAR: []}
    for part in parts_on_two_machines(count - 1):
        names[part.machine].append(part.name)
    each = [f"{machine} ({', '.join(them)})" for machine, them in names.items()]
    return (
        f"{count} processes on bus {BUS}, on two machines that find each other and link"
        f" by TLS: {' and '.join(each)}"
    )


def _show_outage(outcome: Outcome) -> None:
    """Print the cost of the outage, if there was one."""
    times = outcome.outage
    if times is None:
        return
    lost = outcome.unanswered
    click.echo(
        f"the link was cut for {times.cut:.1f} s; this cost"
        f" {counted(sum(lost.values()), 'answer')}:"
        f" {lost.get('peer lost', 0)} of commands that were begun,"
        f" {lost.get('in doubt', 0)} in doubt, {lost.get('returned', 0)} returned;"
        " each file was handed out again"
    )


def _show_found(files: FileList, outcome: Outcome) -> None:
    found = outcome.inventories[-1]
    groups = found.duplicates()
    copies = sum(len(group) - 1 for group in groups)
    read = counted(found.files, "file")
    if found.unread:
        read = (
            f"{found.files:,} of {counted(len(files), 'file')}"
            f" ({len(found.unread):,} could not be read)"
        )
    click.echo(
        f"found {read}, {counted(found.bytes, 'byte')},"
        f" {counted(copies, 'duplicate')} in {counted(len(groups), 'group')}"
    )
    for index in found.largest(LARGEST):
        click.echo(f"  {found.sizes[index]:>12,}  {printable(files.paths[index])}")
    for index in sorted(found.unread)[:NAMED]:
        reason = printable(found.unread[index])
        warn([f"cannot read {files.paths[index]}: {reason}"])
    if len(found.unread) > NAMED:
        more = counted(len(found.unread) - NAMED, "more file")
        warn([f"and {more} could not be read"])


def _show_comparison(files: FileList, outcome: Outcome) -> None:
    for number, comparison in enumerate(outcome.comparisons, 1):
        for index in comparison.differing[:NAMED]:
            click.echo(f"  pass {number} differs in {printable(files.paths[index])}")
    passes = len(outcome.comparisons)
    which = "the pass" if passes == 1 else f"each of {passes:,} passes"
    if outcome.equal:
        click.echo(
            f"compared with a serial hashlib run: {which} is equal"
            " (files, bytes, duplicates)"
        )
    else:
        click.echo("compared with a serial hashlib run: NOT EQUAL")
    vanished = {index for each in outcome.comparisons for index in each.vanished}
    if vanished:
        click.echo(
            f"  left out, since they vanished or appeared during the run:"
            f" {counted(len(vanished), 'file')}"
        )


def _finders(result: CheckResult) -> str:
    """Return which rules found the injected fault, as text."""
    rules = [each.rule for each in result.verdicts if each.verdict is Verdict.FAIL]
    return f"found by {', '.join(rules)}" if rules else "NOT FOUND"
