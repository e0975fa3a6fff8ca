"""The record of a run held to its promises: by Spark if it is there, else in Python.

Both checkers share the words of the rules and of results, and nothing that decides;
whichever is asked, the folder holds ``verdicts.json`` and ``violations.jsonl``
afterwards. The report is Spark's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from bus.errors import DemoError, PipelineError
from bus.journal import results
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.wording import counted
from bus.pipeline.folder import MARKER, OutFolder
from bus.pipeline.run import run_pipeline
from bus.pipeline.session import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus.journal.results import Result

__all__ = ["Judgement", "claimed", "clear", "journals_of", "judge"]


@attrs.frozen(slots=True)
class Judgement:
    """What became of the record.

    lack: what to install for the report, None if Spark drew it.
    """

    result: Result
    lack: str | None = None


@contextmanager
def claimed(out: Path) -> Iterator[OutFolder]:
    """A folder for the results, in which no other demo is at work meanwhile.

    What an earlier run has left in it stays until `clear`.

    Raises:
        DemoError: it is not ours and not empty, or cannot be written, or another demo
          is at work there.
    """
    with _told_in_one_line(out):
        folder = OutFolder.claim(out)
        # A program that is started does not inherit it, and the kernel lets go of it
        # when this process ends, however that happens.
        lock = os.open(out / MARKER, os.O_RDWR | os.O_CLOEXEC)
    try:
        with _told_in_one_line(out):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(lock)


def clear(folder: OutFolder, own: Path) -> None:
    """Remove what an earlier run left in a folder, now that another one is certain.

    own: the journal of this one, which stays.

    Raises:
        DemoError: it cannot be removed.
    """
    with _told_in_one_line(folder.path):
        folder.clear()
    for journal in journals_of(folder).glob("*/*"):
        if journal != own:
            shutil.rmtree(journal, ignore_errors=True)
    for machine in journals_of(folder).iterdir():
        if machine != own.parent:
            shutil.rmtree(machine, ignore_errors=True)


@contextmanager
def _told_in_one_line(out: Path) -> Iterator[None]:
    """Whatever keeps us from writing there, as what a user can look up."""
    try:
        yield
    except PipelineError as error:
        raise DemoError(str(error)) from None
    except BlockingIOError:
        raise DemoError(
            f"cannot write to {out}: another demo is at work there; wait for it, or"
            " name another with --out"
        ) from None
    except OSError as error:
        msg = f"cannot write to {error.filename or out}: {error.strerror}"
        raise DemoError(msg) from None


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
        return Judgement(run_pipeline(journals, folder.path, progress=progress))
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
