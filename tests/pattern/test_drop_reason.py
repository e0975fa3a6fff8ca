"""`DropReason`: each reason has its words, and a place in the package."""

from __future__ import annotations

from pathlib import Path

import pytest

import bus.pattern
from bus.pattern import DropReason
from specs.clauses import clause

FOLDER = Path(str(bus.pattern.__file__)).parent


@clause("BP-4")
def test_reasons_differ_in_their_words() -> None:
    words = [reason.value for reason in DropReason]

    assert len({*words}) == len(words) == len(DropReason.__members__)
    assert all(each and each == each.lower() for each in words)


@clause("BP-4")
@pytest.mark.parametrize("reason", DropReason)
def test_each_reason_is_counted_somewhere(reason: DropReason) -> None:
    texts = [path.read_text() for path in FOLDER.glob("*.py")]

    assert any(f"DropReason.{reason.name}" in text for text in texts)
