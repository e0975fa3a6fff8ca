"""The catalogue can be read, and every fault applies to the library as it is."""

from __future__ import annotations

import ast

import pytest

from specs.clauses import load_clauses
from tests.kit.collector import uncollected
from tests.mutants.catalogue import load_equivalents, load_faults, parse
from tests.mutants.edit import Edit, MutantError
from tests.mutants.library import LIBRARY, ROOT

SOURCE = """\
class Outer:
    def inner(self):
        if first:  # a comment
            one('text')

        two(1 + 2)
        return [1 + 3]

    def other(self):
        two(1 + 2)
"""


@uncollected()
def test_every_fault_applies() -> None:
    clauses = load_clauses()
    for fault in load_faults():
        assert clauses.keys() >= set(fault.clauses), fault.id
        for test in fault.tests:
            folder = LIBRARY if test.startswith("specs/") else ROOT
            file, _, name = test.partition("::")
            function = name.rpartition("::")[2].partition("[")[0]
            assert f"def {function}(" in (folder / file).read_text(), fault.id
        try:
            fault.trees()
        except MutantError as error:
            pytest.fail(f"{fault.id}: {error}")


def test_every_equivalent_applies() -> None:
    for each in load_equivalents():
        each.trees()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('one("text")', "three()", [("one('text')", "three()")]),
        (
            "two( 1 + 2 )",
            "",
            [("        two(1 + 2)\n        return", "        return")],
        ),
        ("1 + 2", "2", [("1 + 2", "2")]),
        ("if first:", "while first:", [("if", "while")]),
        ("if first:", "", [("        if first:\n            one", "        one")]),
        (
            "if first:",
            "with lock:\n    before()\n    ...",
            [("if first:\n", "with lock:\n            before()\n")],
        ),
        ("def inner(self):", "def inner(this):", [("inner(self)", "inner(this)")]),
        ("1 + 4", "5", None),  # it is not there
        ("1", "5", None),  # it is there twice
        ("if first", "", None),  # it is not Python
    ],
)
def test_an_edit_changes_one_place_of_one_function(
    old: str, new: str, expected: list[tuple[str, str]] | None
) -> None:
    source = SOURCE.replace("  # a comment", "")
    tree = ast.parse(SOURCE)
    edit = Edit("Outer.inner", old, new)
    if expected is None:
        with pytest.raises(MutantError):
            edit.apply(tree)
        return
    edit.apply(tree)
    for before, after in expected:
        assert before in source
        source = source.replace(before, after, 1)
    assert ast.dump(tree) == ast.dump(ast.parse(source))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("X1\n  no clause\n  a.py::test\nA.b\n- x\n", "X1 needs clauses"),
        ("X1 QB-SEND-1\n  no test\nA.b\n- x\n", "X1 needs clauses, and below"),
        ("X1 QB-SEND-1\n  no change\n  a.py::test\n", "X1 needs a change"),
        ("X1 QB-SEND-1\n  nowhere\n  a.py::test\n- x\n", "X1 removes nothing"),
        ("X1 QB-SEND-1\n  no context\n  a.py::test\nA.b\n+ x\n", "X1 removes nothing"),
    ],
)
def test_a_block_that_is_not_one_is_named(block: str, words: str) -> None:
    with pytest.raises(MutantError, match=words):
        list(parse(block))
