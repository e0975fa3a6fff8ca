"""The record of a run held to its promises: by Spark if it is there, else in Python.

Both checkers share the words of the rules and of results, and nothing that decides;
whichever is asked, the folder holds ``verdicts.json`` and ``violations.jsonl``
afterwards. The report is Spark's.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import attrs

from bus.errors import DemoError, PipelineError
from bus.journal import results
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.pipeline.folder import OutFolder
from bus.pipeline.run import run_pipeline
from bus.pipeline.session import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.results import Result

__all__ = ["Judgement", "claim", "journals_of", "judge"]


@attrs.frozen(slots=True)
class Judgement:
    """What became of the record.

    lack: what to install for the report, None if Spark drew it.
    """

    result: Result
    lack: str | None = None


def claim(out: Path) -> OutFolder:
    """Take a folder for the results, empty of those of an earlier run.

    Raises:
        DemoError: it is not ours and not empty, or cannot be written.
    """
    try:
        folder = OutFolder.claim(out)
        folder.clear()
        shutil.rmtree(journals_of(folder), ignore_errors=True)
    except PipelineError as error:
        raise DemoError(str(error)) from None
    except OSError as error:
        msg = f"cannot write to {error.filename or out}: {error.strerror}"
        raise DemoError(msg) from None
    return folder


def journals_of(folder: OutFolder) -> Path:
    """Where the record lies."""
    return folder.path / "journal"


def judge(folder: OutFolder, progress: Callable[[str], None]) -> Judgement:
    """Check the record in a folder and leave the results beside it.

    progress: told in a few words what is being done.

    Raises:
        PipelineError: Spark is there and failed.
        JournalError: the record cannot be read.
    """
    lack = missing()
    journals = journals_of(folder)
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
