"""A process that is killed while it creates its journal has recorded nothing yet."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES, LOST_OFFSET
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from specs.clauses import clause
from tests.journal.by_hand import met, received, sent
from tests.journal.checking import verdicts
from tests.journal.histories import History, clean, store
from tests.journal.reading import patch
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

# The steps, in order; the test makes the process end at each.
STEPS = ["Meta", "Meta._write", "_write"]

KILLED = """
import os, sys
from bus.journal import incarnation, meta
from bus.journal.writer import Journal

holder, _, name = ("incarnation." + sys.argv[2]).rpartition(".")
setattr(eval(holder), name, lambda *_, **__: os._exit(9))
Journal(sys.argv[1], segment_bytes=16384)
"""


def killed_at(step: str, folder: Path) -> Path:
    """Return a journal whose process ended before a step of its creation."""
    assert run(KILLED, folder, step) == (9, "", "")
    (segment,) = folder.rglob("*.qbj")
    return segment.parent


@pytest.mark.deep
@clause("J1")
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_before_its_first_record_leaves_only_j1_unknown(
    tmp_path: Path, step: str
) -> None:
    """A process that had not begun cannot have recorded any message."""
    killed_at(step, tmp_path)
    store(met(*sent(1, 2), *received(1, 2)), tmp_path)

    result = check(open_journals(tmp_path))

    assert [(one.rule, one.case) for one in result.violations] == [("J1", "unbegun")]
    assert result.verdicts[0].why.startswith("its process had not begun to record")
    assert verdicts(result) == {
        rule: Verdict.UNKNOWN
        if rule == "J1"
        else Verdict.NOTHING
        if rule.startswith("B")
        else Verdict.PASS
        for rule in verdicts(result)
    }


@clause("J1")
def test_a_loss_proven_elsewhere_is_no_less_proven(tmp_path: Path) -> None:
    """A journal that has not begun does not excuse another one."""
    killed_at("_write", tmp_path)
    store(met(*sent(1, 2), *received(2)), tmp_path)

    assert verdicts(check(open_journals(tmp_path)))["Q5"] is Verdict.FAIL


def test_a_process_killed_in_its_first_record_had_not_begun(tmp_path: Path) -> None:
    """The fields are written, but not the mark, which is written last."""
    path = killed_at("_write", tmp_path)
    patch(next(path.glob("*.qbj")), HEADER_BYTES, b"\1\0\0\0")

    (facts,) = check(open_journals(tmp_path)).facts
    assert (facts.begun, facts.lossy, facts.complete) == (False, False, False)


@pytest.mark.deep
@clause("J1")
@pytest.mark.parametrize(
    "sign", ["name", "loss", "second record", "second segment", "no segment"]
)
def test_a_journal_that_shows_any_sign_of_life_has_begun(
    tmp_path: Path, sign: str
) -> None:
    """Its records are missing, and may have broken any rule."""
    path = killed_at("_write", tmp_path)
    segment = path / "seg-00000.open.qbj"
    match sign:
        case "name":
            with (path / "meta.jsonl").open("a") as meta:
                meta.write('{"is":"name","id":1,"text":"a"}\n')
        case "loss":
            patch(segment, LOST_OFFSET, b"\1")
        case "second record":
            patch(segment, HEADER_BYTES + RECORD_BYTES, b"\1")
        case "second segment":
            (other,) = store(clean(1), tmp_path / "other")
            shutil.copy(other / "seg-00000.qbj", path / "seg-00001.open.qbj")
            shutil.rmtree(tmp_path / "other")
        case "no segment":
            segment.unlink()
    store(History(), tmp_path)

    result = check(open_journals(tmp_path))
    assert {each.begun for each in result.facts} == {True}
    assert verdicts(result)["Q5"] is not Verdict.NOTHING
