"""The wording of numbers, foreign names and reasons."""

from __future__ import annotations

import pytest

from bus.journal.wording import counted, hex64, printable, reason_name
from queuebroker.observer import Reason


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 中", "plain é 中"),
        ("\x1b[31m\n\t", r"\x1b[31m\n\t"),
        ("\ud800", r"\ud800"),
        ("\u202e", r"\u202e"),
    ],
)
def test_only_printable_characters_are_shown_as_they_are(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0" * 16),
        (255, "00000000000000ff"),
        (2**64 - 1, "f" * 16),
        (-1, "f" * 16),
        (-(2**63), "8" + "0" * 15),
    ],
)
def test_a_number_has_one_form_whatever_its_sign(number: int, text: str) -> None:
    assert hex64(number) == text


def test_a_reason_of_a_later_version_is_shown_by_its_number() -> None:
    assert {reason_name(reason) for reason in Reason} == {
        reason.name.lower() for reason in Reason
    }
    assert reason_name(max(Reason) + 1) == f"reason-{max(Reason) + 1}"


def test_one_thing_is_no_plural() -> None:
    assert counted(1, "file") == "1 file"
    assert counted(0, "file") == "0 files"
    assert counted(2000, "file") == "2,000 files"
