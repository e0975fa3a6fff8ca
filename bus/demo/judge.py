"""The record of a run held to its promises: by Spark if it is there, else in Python.

Both checkers share the words of the rules and of results, and nothing that decides;
whichever is asked, the folder holds ``verdicts.json`` and ``violations.jsonl``
afterwards. The report is Spark's.
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
from bus.pipeline.session import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.results import Result
    from bus.pipeline.folder import OutFolder

__all__ = ["Judgement", "clear", "journals_of", "judge"]


@attrs.frozen(slots=True)
class Judgement:
    """What became of the record.

    lack: what to install for the report, None if Spark drew it.
    """

    result: Result
    lack: str | None = None


def clear(folder: OutFolder, own: Path) -> None:
    """Remove what an earlier run left in a folder, now that another one is certain.

    own: the journal of this one, which stays.

    Raises:
        DemoError: it cannot be removed.
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
    """Where the record lies."""
    return folder.path / "journal"


def judge(
    folder: OutFolder, own: Path, processes: int, progress: Callable[[str], None]
) -> Judgement:
    """Check the record in a folder and leave the results beside it.

    own: the journal of this process.
    processes: how many have recorded there.
    progress: told in a few words what is being done.

    Raises:
        DemoError: it is not the record of this run, or not all of it.
        PipelineError: Spark is there and failed.
        JournalError: the record cannot be read.
    """
    lack = missing()
    journals = journals_of(folder)
    _check_recorded(journals, own, processes)
    if lack is None:
        return Judgement(run_in(folder, journals, progress=progress))
    progress("checking the record")
    found = check(open_journals(journals))
    results.write(
        found.summary,
        found.violations,
        map(attrs.asdict, found.facts),
        verdicts_path=folder.verdicts,
        violations_path=folder.violations,
    )
    return Judgement(found.summary, lack)


def _check_recorded(journals: Path, own: Path, processes: int) -> None:
    """See that each process has left its journal: what is not there breaks no rule."""
    found = {each.path for each in open_journals(journals)}
    if own not in found:
        raise DemoError(f"cannot judge the run: its record is gone from {own}")
    if len(found) != processes:
        raise DemoError(
            f"cannot judge the run: {processes} processes took part, and"
            f" {journals} holds {counted(len(found), 'journal')}"
        )
