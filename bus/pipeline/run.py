"""A whole run: journals -> tables -> verdicts and violations -> report.

`bus pipeline all` calls `run_pipeline`; the demo calls `run_in`. Each stage writes its
tables and the next reads them, so that nothing is computed twice and every result can
be traced. Nothing here prints: `progress` reports the stages, and the `Result` lists
the read errors.
"""

from __future__ import annotations

import contextlib
import datetime as dt
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
from bus.journal.format import RECORD_BYTES
from bus.journal.meta import META_FILE
from bus.journal.reader import open_journals
from bus.pipeline.folder import OutFolder, claimed
from bus.pipeline.session import given_settings, missing, missing_packages, session
from bus.requirements import requirements, version_of_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from bus.journal.results import Result
    from bus.pipeline.rules import Tables

__all__ = ["draw_report", "run_in", "run_pipeline"]


def run_pipeline(
    journals: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    report: bool = True,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Read every journal below a folder, judge it, and write all results to another.

    out: made if missing; must be empty, or a folder of earlier results, which are
      deleted.
    report: True to draw it, too.
    master, settings: as for `bus.pipeline.session.build_session`, if this process has
      no session yet.
    progress: called with a few words at the beginning of each stage.

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
) -> Result:
    """Run as `run_pipeline` does, in a folder that the caller has claimed."""
    # Executors, and Spark itself, may run in another directory.
    journals = Path(journals).absolute()
    folder = OutFolder(folder.path.absolute())
    records = _estimate(journals)
    folder.clear()
    progress("starting Spark")
    with (
        _told_in_one_line(folder),
        session(
            log=folder.log, master=master, records=records, settings=settings
        ) as spark,
    ):
        folder.about.write_text(json.dumps(_about(spark, journals), indent=2) + "\n")
        progress("reading journals")
        problems = _ingest(spark, journals, folder)
        progress("joining sends and receives")
        tables = _refine(spark, folder)
        progress("checking the rules")
        result = _judge(spark, folder, tables, problems)
        if report:
            progress("computing the statistics")
            _summarize(folder, tables)
    if report:
        progress("drawing the report")
        result = attrs.evolve(result, report=_write(folder, _page(folder)))
    return result


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


def _estimate(journals: Path) -> int:
    """Return an upper estimate of the number of records: segments are allocated whole.

    Raises:
        JournalError: there is no journal, or a folder cannot be read.
    """
    total, found = 0, False
    for folder, _, files in os.walk(journals):
        for name in files:
            is_segment = name.endswith(".qbj")
            found = found or is_segment or name == META_FILE
            if is_segment:
                with contextlib.suppress(OSError):
                    total += Path(folder, name).stat().st_size // RECORD_BYTES
    if not found:
        open_journals(journals)  # raises with the reason
    return total


def _ingest(spark: SparkSession, journals: Path, folder: OutFolder) -> list[str]:
    from bus.pipeline import bronze  # noqa: PLC0415 - needs Spark

    bronze.ingest(spark, journals, folder)
    return bronze.problems(folder.read(spark, "segments"))


def _refine(spark: SparkSession, folder: OutFolder) -> Tables:
    from bus.pipeline import bus_silver, silver  # noqa: PLC0415 - needs Spark
    from bus.pipeline.rules import Tables  # noqa: PLC0415 - needs Spark

    def keep(name: str, rows: DataFrame) -> DataFrame:
        folder.write(rows, name)
        return folder.read(spark, name)

    events, segments = (folder.read(spark, name) for name in ("events", "segments"))
    tallies = silver.tally(events).persist()
    journals = keep("journals", silver.journals(tallies, segments))
    flows = keep("flows", silver.flows(tallies, journals))
    sessions = keep("sessions", silver.sessions(tallies, events, journals))
    transfers = lines = None
    if bus_silver.any_of_bus(tallies):
        transfers = keep("transfers", bus_silver.transfers(events, tallies, journals))
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
    if refusal := re.search(r"JournalError: (.+)", text):
        return refusal[1]
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])
