"""The catalogue can be read, and every mutant applies to the library as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.clauses import load_clauses
from tests.mutants.catalogue import load_mutants, parse
from tests.mutants.mutant import PACKAGES, Edit, MutantError, plant

if TYPE_CHECKING:
    from pathlib import Path

TOP = PACKAGES[0].parent

SOURCE = """\
def outer():
    if first:
        one()

    two()
"""


def test_every_mutant_applies() -> None:
    clauses = load_clauses()
    for mutant in load_mutants():
        assert clauses.keys() >= set(mutant.clauses), mutant.id
        texts: dict[str, str] = {}
        for edit in mutant.edits:
            text = texts.get(edit.file) or (TOP / edit.file).read_text()
            try:
                texts[edit.file] = edit.apply(text)
            except MutantError as error:
                pytest.fail(f"{mutant.id}: {error}")
            assert texts[edit.file] != text, mutant.id


def test_a_planted_copy_differs_from_the_library_only_by_its_edit(
    tmp_path: Path,
) -> None:
    mutant = next(each for each in load_mutants() if each.edits)
    plant(mutant, tmp_path)

    changed = [
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*.py")
        if path.read_text() != (TOP / path.relative_to(tmp_path)).read_text()
    ]
    assert changed == [mutant.edits[0].file]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([("-", "one()")], None),  # the rest is not Python
        ([("-", "one()"), ("+", "three()")], SOURCE.replace("one", "three")),
        (
            [("=", "one()"), ("=", ""), ("-", "two()")],
            SOURCE.replace("    two()\n", ""),
        ),
        (
            [("=", "one()"), ("+", "if three:"), ("+", "    four()")],
            SOURCE.replace("one()\n", "one()\n        if three:\n            four()\n"),
        ),
        ([("-", "five()")], None),
        ([("-", "")], SOURCE.replace("\n\n", "\n")),
    ],
)
def test_lines_are_found_by_their_content(
    lines: list[tuple[str, str]], expected: str | None
) -> None:
    edit = Edit("a.py", tuple(lines))
    if expected is None:
        with pytest.raises(MutantError, match=r"a\.py"):
            edit.apply(SOURCE)
    else:
        assert edit.apply(SOURCE) == expected


def test_lines_that_stand_there_twice_do_not_apply() -> None:
    with pytest.raises(MutantError, match="has 2 of these lines"):
        Edit("a.py", (("-", "one()"),)).apply("one()\none()\n")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("X1\n  no clause\na.py\n- x\n", "X1 needs clauses"),
        ("X1 QB-SEND-1\nno title\n", "X1 needs clauses, and a title"),
        ("X1 QB-SEND-1\n  no change\n", "X1 needs a change"),
        ("X1 QB-SEND-1\n  nowhere\n- x\n", "X1 names no file before '- x'"),
    ],
)
def test_a_block_that_is_not_one_is_named(block: str, words: str) -> None:
    with pytest.raises(MutantError, match=words):
        list(parse(block))
