"""The figures of ``python -m tests.words`` are of what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.imports import Tree
from tests.words.names import gone_names
from tests.words.prose import prose_of, subjectless
from tests.words.sizes import Largest, largest_of

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Who sends waits.", 1),
        ("The sender waits.", 0),
        ("A reader, who waits", 0),  # a relative clause has its noun
        ("Return what is sent to whoever waits.", 1),
        ("If who waits is woken, what came is read.", 1),
        ("Whatever happens: what waits goes", 2),
    ],
)
def test_clauses_without_a_noun_are_counted(text: str, count: int) -> None:
    assert subjectless(text) == count


def test_no_page_has_a_clause_without_a_noun() -> None:
    pages = [*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md")]

    counts = {each: sum(map(subjectless, prose_of(each))) for each in pages}

    assert [str(each) for each in pages if counts[each]] == []


def test_prose_has_comments_messages_and_page_text_but_no_code(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""A module."""\n# One comment\n# of two lines.\n'
        'x = "key"\nraise ValueError("cannot send: it is closed")\n'
    )
    page = tmp_path / "a.md"
    page.write_text("Text with `code`.\n\n    code\n\n```\ncode\n```\n\nMore.\n")

    # A docstring of two words is no sentence.
    assert list(prose_of(path)) == [
        "One comment of two lines.",
        "cannot send: it is closed",
    ]
    assert " ".join(prose_of(page)).split() == ["Text", "with", ".", "More."]


def test_names_that_went_are_found_in_identifiers(tmp_path: Path) -> None:
    text = "class StandIn:\n    _stand_in = bursting = 'burst'\n"
    path = tmp_path / "bus" / "process" / "burst.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    elsewhere = tmp_path / "a.py"
    elsewhere.write_text(text)

    assert dict(gone_names(path, tmp_path)) == {"burst": 1, "stand_in": 2}
    assert dict(gone_names(elsewhere, tmp_path)) == {}  # it is the right word there


def test_the_largest_of_each_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "class A:\n    def __init__(self, b, *, c):\n        pass\n\n\n"
        "def f():\n    pass\n"
    )

    assert largest_of([path]) == {
        "file": Largest(7, "a.py"),
        "class": Largest(3, "a.A"),
        "constructor": Largest(2, "a.A"),
        "function": Largest(2, "a.f"),
    }


def test_circles_of_imports_include_imports_for_type_checkers(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("from p import a, b, c\n")
    (package / "a.py").write_text("import p.b\n")
    (package / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import x\n"
    )
    (package / "c.py").write_text("import p.a\n")

    assert Tree.read(package).circles() == [["p.a", "p.b"]]
