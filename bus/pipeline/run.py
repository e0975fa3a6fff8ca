"""A whole run: journals -> tables -> verdicts and violations -> report.

`bus pipeline all` calls `run_pipeline`; the demo calls `run_in`. Each stage writes its
tables and the next reads them, so that nothing is computed twice and every result can
be traced. Nothing here prints: `progress` reports the stages, and the `Result` lists
the read errors.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import platform
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.errors import PipelineError
from bus.journal.results import Result
from bus.journal.wording import counted
from bus.pipeline.folder import OutFolder, claimed
from bus.pipeline.session import given_settings, missing, missing_packages, session
from bus.requirements import requirements, version_of_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from bus.pipeline.bronze import Ingest
    from bus.pipeline.rules import Tables

__all__ = ["Outcome", "draw_report", "run_in", "run_pipeline"]


@attrs.frozen
class Outcome(Result):
    """The result of a run, and the part of it that is new.

    journals, records: in the tables.
    journals_read, records_read: of those, in the segments that this run has read.
    since: the time of the run that gave the verdicts, if it was an earlier one; ISO
      8601.
    """

    journals: int = 0
    records: int = 0
    journals_read: int = 0
    records_read: int = 0
    since: str | None = None

    @property
    def amounts(self) -> dict[str, Any]:
        """The same facts, for JSON."""
        return {
            "records": self.records,
            "journals_read": self.journals_read,
            "records_read": self.records_read,
            "since": self.since,
            "report": None if self.report is None else str(self.report),
        }

    @property
    def news(self) -> str:
        """The amounts, and the newly read ones, in one line."""
        total = f"{counted(self.journals, 'journal')}, {self.records:,} records"
        if self.since is not None:
            return f"nothing new since {self.since}: {total}"
        read = f"{self.records_read:,} in {counted(self.journals_read, 'journal')}"
        return f"read {total}; of these newly {read}"


def run_pipeline(
    journals: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    report: bool = True,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Read every journal below a folder, judge it, and write all results to another.

    A segment that an earlier run with the same `out` has read is not read again. If
    there is nothing new at all, the verdicts of that run are returned, without Spark.

    out: made if missing; must be empty, or a folder of earlier results, which are
      replaced.
    report: True to draw it, too.
    master, settings: as for `bus.pipeline.session.build_session`, if this process has
      no session yet.
    progress: called with a few words at the beginning of each stage, and during the
      first one.

    Raises:
        JournalError: there is no journal, or a folder cannot be read.
        PipelineError: Spark cannot run here, `out` cannot be used, another run is
          active there, or Spark failed.
    """
    lack = missing(drawing=report)
    if lack is not None:
        raise PipelineError(lack)
    with claimed(Path(out)) as folder:
        return run_in(
            folder,
            journals,
            report=report,
            master=master,
            settings=settings,
            progress=progress,
        )


def run_in(
    folder: OutFolder,
    journals: str | os.PathLike[str],
    *,
    report: bool = True,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run as `run_pipeline` does, in a folder that the caller has claimed."""
    from bus.pipeline.bronze import Ingest  # noqa: PLC0415 - needs pyarrow
    from bus.pipeline.results import read_result  # noqa: PLC0415 - needs pyarrow

    # Executors, and Spark itself, may run in another directory.
    journals = Path(journals).absolute()
    folder = OutFolder(folder.path.absolute())
    progress("looking for new records")
    ingest = Ingest.prepare(journals, folder)
    about = _earlier(folder, ingest, report=report)
    if about is None:
        folder.clear(keep=("events", "segments"))
        result = _made(
            ingest,
            journals,
            report=report,
            master=master,
            settings=settings,
            progress=progress,
        )
    else:
        rows = ingest.before
        result = _outcome(read_result(folder), rows, (), since=about["started"])
    if report and not (about and folder.report.exists()):
        progress("drawing the report")
        _write(folder, _page(folder))
    if report:
        result = attrs.evolve(result, report=folder.report)
    return result


def _earlier(
    folder: OutFolder, ingest: Ingest, *, report: bool
) -> dict[str, Any] | None:
    """Return the file about the earlier run if its results are those of this one."""
    from bus.pipeline.results import read_result  # noqa: PLC0415 - needs pyarrow

    if ingest.plan.to_read or ingest.commit(()) != ingest.before:
        return None
    try:
        about: dict[str, Any] = json.loads(folder.about.read_text(encoding="utf-8"))
        made_from, drawn = about["made_from"], about["drawn"]
        read_result(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return about if made_from == _digest(folder) and drawn >= report else None


def _digest(folder: OutFolder) -> str:
    """Return a checksum of the table `segments`: each update of it has another."""
    return hashlib.sha256(folder.segments.read_bytes()).hexdigest()


def _made(
    ingest: Ingest,
    journals: Path,
    *,
    report: bool,
    master: str | None,
    settings: Mapping[str, str] | None,
    progress: Callable[[str], None],
) -> Outcome:
    """Make all tables and results; the file about the run is last."""
    from bus.pipeline import bronze  # noqa: PLC0415 - needs pyarrow

    folder = ingest.folder
    progress("starting Spark")
    with (
        _told_in_one_line(folder),
        session(
            log=folder.log, master=master, records=ingest.records, settings=settings
        ) as spark,
    ):
        about = _about(spark, journals)
        progress("reading journals")
        read = bronze.read_segments(spark, ingest, progress)
        rows = ingest.commit(read)
        progress("joining sends and receives")
        tables = _refine(spark, folder)
        progress("checking the rules")
        result = _judge(spark, folder, tables, bronze.problems(rows))
        if report:
            progress("computing the statistics")
            _summarize(folder, tables)
    about |= {"made_from": _digest(folder), "drawn": report}
    folder.about.write_text(json.dumps(about, indent=2) + "\n", encoding="ascii")
    return _outcome(result, rows, read)


def _outcome(
    result: Result,
    rows: Sequence[Mapping[str, Any]],
    read: Sequence[Mapping[str, Any]],
    since: str | None = None,
) -> Outcome:
    return Outcome(
        **attrs.asdict(result, recurse=False),
        journals=len({row["journal"] for row in rows}),
        records=sum(row["records"] for row in rows),
        journals_read=len({row["journal"] for row in read}),
        records_read=sum(row["records"] for row in read),
        since=since,
    )


def draw_report(
    out: str | os.PathLike[str], against: str | os.PathLike[str] | None = None
) -> Path:
    """Draw the report of an earlier run again, from its tables; needs no Spark.

    against: the results of another run, with which the report compares it.

    Raises:
        PipelineError: a package is missing, a folder holds no results, they cannot be
          read, both folders are one, or another run is active in `out`.
    """
    lack = missing_packages()
    if lack is not None:
        raise PipelineError(lack)
    folder = OutFolder.reopen(Path(out))
    other = None if against is None else OutFolder.reopen(Path(against))
    if other is not None and other.path.samefile(folder.path):
        raise PipelineError(
            f"cannot compare {out} with itself: name the results of another run with"
            " --against"
        )
    with folder.locked():
        for each in filter(None, (folder, other)):
            if not each.table("routes").exists():
                raise PipelineError(
                    f"no statistics in {each.path}: `bus pipeline check` computes"
                    " none; run `bus pipeline all`"
                )
        try:
            page = _page(folder, other)
        except (ValueError, OSError) as error:  # pyarrow's own errors are both
            paths = out if against is None else f"{out} or {against}"
            msg = f"cannot read the results in {paths}: run `bus pipeline all` again"
            raise PipelineError(msg) from error
        return _write(folder, page)


def _page(folder: OutFolder, other: OutFolder | None = None) -> str:
    from bus.pipeline.report import render  # noqa: PLC0415 - loaded where used

    return render(folder, other)


def _write(folder: OutFolder, page: str) -> Path:
    folder.report.write_text(page, encoding="utf-8")
    return folder.report


def _about(spark: SparkSession, journals: Path) -> dict[str, Any]:
    """Return the report's facts about the run itself."""
    context = spark.sparkContext
    java = context._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr] # running
    found = {each.name: each.found for each in requirements("pipeline")}
    return {
        "command": shlex.join(sys.argv),
        "journals": str(journals),
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": platform.node(),
        "master": context.master,
        "settings": given_settings(spark),
        "versions": {
            "queuebroker": version_of_us(),
            "Python": platform.python_version(),
            "Java": java,
            **{name: found.get(name) for name in ("pyspark", "pyarrow", "pandas")},
        },
    }


def _refine(spark: SparkSession, folder: OutFolder) -> Tables:
    from bus.pipeline import (  # noqa: PLC0415 - needs Spark
        bronze,
        bus_silver,
        clocks,
        silver,
    )
    from bus.pipeline.rules import Tables  # noqa: PLC0415 - needs Spark

    def keep(name: str, rows: DataFrame) -> DataFrame:
        folder.write(rows, name)
        return folder.read(spark, name)

    events, segments = bronze.events(spark, folder), folder.read(spark, "segments")
    tallies = silver.tally(events).persist()
    journals = keep("journals", silver.journals(tallies, segments))
    flows = keep("flows", silver.flows(tallies, journals))
    sessions = keep("sessions", silver.sessions(tallies, events, journals))
    transfers = lines = None
    if bus_silver.any_of_bus(tallies):
        rows = bus_silver.transfers(events, tallies, journals)
        if clocks.several_boots(journals):
            between = clocks.between_boots(events, journals)
            offsets = keep("clocks", clocks.clocks(between))
            rows = clocks.aligned(rows, offsets, journals)
        transfers = keep("transfers", rows)
        lines = keep("lines", bus_silver.lines(transfers))
    tallies.unpersist()
    messages = keep("messages", silver.messages(events, journals))
    return Tables(events, journals, messages, sessions, flows, transfers, lines)


def _judge(
    spark: SparkSession, folder: OutFolder, tables: Tables, problems: list[str]
) -> Result:
    from bus.pipeline.results import write_results  # noqa: PLC0415 - needs pyarrow
    from bus.pipeline.rules import violations  # noqa: PLC0415 - needs Spark
    from bus.pipeline.verdicts import verdicts  # noqa: PLC0415 - needs Spark

    # One file, in the order of reading: there are few rows, or all is broken.
    found = violations(tables).repartition(1)
    folder.write(found.sortWithinPartitions("rule", "journal", "n"), "violations")
    each = verdicts(tables, folder.read(spark, "violations"))
    return write_results(folder, each, problems)


def _summarize(folder: OutFolder, tables: Tables) -> None:
    """Write every table that the report draws."""
    from bus.pipeline import gold  # noqa: PLC0415 - needs Spark
    from bus.pipeline.results import drawn_violations  # noqa: PLC0415 - needs pyarrow

    scale = gold.Scale.of(tables.journals)
    profiles = gold.profile(tables, scale).persist()
    summaries = {
        "routes": gold.routes(tables),
        "traffic": gold.traffic(profiles, scale),
        "latency": gold.latency(profiles),
        "distribution": gold.distribution(profiles),
        "depth": gold.depth(profiles, scale),
        "waits": gold.waits(tables.events),
        "drops": gold.drops(tables.events, scale),
        "marks": gold.marks(tables.events, tables.journals).unionByName(
            gold.closes(tables.events)
        ),
    }
    if gold.on_several_machines(tables):
        summaries["machines"] = gold.machines(tables)
    if tables.transfers is not None:
        summaries["hops"] = gold.hops(tables.transfers)
    drawn = drawn_violations(folder)
    if drawn:
        summaries["scenes"] = gold.scenes(tables.events, drawn)
    for name, rows in summaries.items():
        folder.write(rows, name)
    profiles.unpersist()


@contextlib.contextmanager
def _told_in_one_line(folder: OutFolder) -> Iterator[None]:
    """Turn an error that Spark raises in the block into one that a user can look up."""
    from py4j.protocol import (  # type: ignore[import-untyped]  # noqa: PLC0415 - no types; loaded where used
        Py4JError,
    )
    from pyspark.errors import PySparkException  # noqa: PLC0415 - loaded where used

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        msg = f"Spark failed: {_gist(error)}; more in {folder.log}"
        raise PipelineError(msg) from error


# The errors of an executor that lacks a program or a package, and the remedy.
_LACKS: Final = (
    re.compile(r"No module named '[^']+'"),
    re.compile(r'Cannot run program "[^"]+"'),
    re.compile(r"\[PYTHON_VERSION_MISMATCH\][^.]*"),
)
# The error of the operating system below those of Spark.
_CAUSES: Final = re.compile(r"Caused by: java\.(?:nio\.file|io)\.\w+: (.+)")
_WORKERS_PYTHON: Final = (
    "name a Python that has this package and its extra `pipeline` with"
    " --conf spark.pyspark.python=PATH"
)


def _gist(error: Exception) -> str:
    """Return the line of an error that has the reason, not the call."""
    text = str(error).strip()
    lines = text.splitlines() or [type(error).__name__]
    for pattern in _LACKS:
        if lack := pattern.search(text):
            return f"an executor reports: {lack[0]}; {_WORKERS_PYTHON}"
    if refusal := re.search(r"(?:JournalError|PipelineError): (.+)", text):
        return refusal[1]
    if causes := _CAUSES.findall(text):
        return str(causes[-1])
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])
