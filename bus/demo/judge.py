"""The record of a run held to its promises: by Spark if it is there, else in Python.

Both checkers share the rules and nothing else; whichever is asked, the folder holds
``verdicts.json`` and ``violations.jsonl`` afterwards, in the same words. The report
is Spark's.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import DemoError, PipelineError
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.pipeline.folder import OutFolder
from bus.pipeline.run import run_pipeline
from bus.pipeline.session import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.checker import CheckResult
    from bus.journal.rules import RuleVerdict, Verdict, Violation

__all__ = ["Judgement", "claim", "journals_of", "judge"]

SHOWN: Final = 10
_IDENTIFIERS: Final = ("journal", "flow")


@attrs.frozen(slots=True)
class Judgement:
    """What became of the record.

    violations: how many there are. first: the first of them.
    report: the HTML file, None without Spark; then ``lack`` says what to install.
    problems: what could not be read, one line each.
    """

    verdict: Verdict
    verdicts: tuple[RuleVerdict, ...]
    violations: int
    first: tuple[Violation, ...]
    problems: tuple[str, ...]
    report: Path | None = None
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
    if lack is None:
        return _with_spark(folder, progress)
    progress("checking the record")
    result = check(open_journals(journals_of(folder)))
    _write(folder, result)
    return Judgement(
        result.verdict,
        result.verdicts,
        len(result.violations),
        result.violations[:SHOWN],
        result.problems,
        lack=lack,
    )


def _with_spark(folder: OutFolder, progress: Callable[[str], None]) -> Judgement:
    from bus.pipeline.results import first_violations  # noqa: PLC0415 - needs pyarrow

    result = run_pipeline(journals_of(folder), folder.path, progress=progress)
    return Judgement(
        result.verdict,
        result.verdicts,
        result.violations,
        tuple(first_violations(folder, SHOWN)[:SHOWN]),
        result.problems,
        report=result.report,
    )


def _write(folder: OutFolder, result: CheckResult) -> None:
    """Leave what the small checker found as the pipeline would."""
    told = {
        "verdict": result.verdict,
        "verdicts": [attrs.asdict(each) for each in result.verdicts],
        "violations": len(result.violations),
        "listed": len(result.violations),
        "journals": [_in_hex(attrs.asdict(each)) for each in result.facts],
        "problems": list(result.problems),
    }
    folder.verdicts.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    with folder.violations.open("w", encoding="utf-8") as lines:
        for violation in result.violations:
            lines.write(json.dumps(_in_hex(attrs.asdict(violation))) + "\n")


def _in_hex(row: dict[str, object]) -> dict[str, object]:
    """With 64-bit identifiers as text: JSON readers make floats of such numbers."""
    return {
        name: f"{value:016x}"
        if name in _IDENTIFIERS and isinstance(value, int)
        else value
        for name, value in row.items()
    }
