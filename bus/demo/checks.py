"""Checks the record of a run: in Python at once, then with Spark.

Both checkers share the terms of the rules and of results, but no code that decides.
After either, the folder holds ``verdicts.json`` and ``violations.jsonl``. Only Spark
draws the report.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import attrs

from bus.errors import DemoError
from bus.journal import results
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.wording import counted
from bus.pipeline.run import run_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.checker import CheckResult
    from bus.journal.results import Result
    from bus.pipeline.folder import OutFolder

__all__ = ["check_record", "check_with_spark", "clear", "journals_of"]


def clear(folder: OutFolder, own: Path) -> None:
    """Remove the results of an earlier run from a folder, once this one has begun.

    own: the journal of this run, which stays.

    Raises:
        DemoError: a file cannot be removed.
    """
    try:
        folder.clear()
    except OSError as error:
        msg = f"cannot write to {error.filename or folder.path}: {error.strerror}"
        raise DemoError(msg) from None
    for journal in journals_of(folder).glob("*/*"):
        if journal != own:
            shutil.rmtree(journal, ignore_errors=True)
    for machine in journals_of(folder).iterdir():
        if machine != own.parent:
            shutil.rmtree(machine, ignore_errors=True)


def journals_of(folder: OutFolder) -> Path:
    """Return the folder of the record."""
    return folder.path / "journal"


def check_record(folder: OutFolder, own: Path, processes: int) -> CheckResult:
    """Check the record in a folder in Python, and write the results beside it.

    own: the journal of this process.
    processes: the number of processes that have recorded there.

    Raises:
        DemoError: it is not the record of this run, or not all of it.
        JournalError: the record cannot be read.
    """
    journals = journals_of(folder)
    _check_recorded(journals, own, processes)
    found = check(open_journals(journals))
    results.write(
        found.summary,
        found.violations,
        map(attrs.asdict, found.facts),
        verdicts_path=folder.verdicts,
        violations_path=folder.violations,
    )
    return found


def check_with_spark(folder: OutFolder, progress: Callable[[str], None]) -> Result:
    """Check the record with Spark, write the results again, and draw the report.

    progress: called with a few words at the beginning of each stage.

    Raises:
        PipelineError: Spark failed.
        JournalError: the record cannot be read.
    """
    return run_in(folder, journals_of(folder), progress=progress)


def _check_recorded(journals: Path, own: Path, processes: int) -> None:
    """Check that each process has left its journal: a missing one breaks no rule."""
    found = {each.path for each in open_journals(journals)}
    if own not in found:
        raise DemoError(f"cannot check the run: its journal is missing from {own}")
    if len(found) != processes:
        raise DemoError(
            f"cannot check the run: {processes} processes took part, and"
            f" {journals} holds {counted(len(found), 'journal')}"
        )
