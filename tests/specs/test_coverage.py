"""Decorators are read from the source: ties, holes, orphans, and unreadable ones."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from specs.clauses import index_pages, load_clauses
from specs.coverage import Tie, Trouble, read_ties, weigh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from specs.coverage import Coverage

    Write = Callable[[str, str], None]

CLAUSES = index_pages(
    [
        (
            "x.md",
            "* **QB-X-1** One. *Source: ours.*\n"
            "* **QB-X-2** Two. *Source: ours.*\n"
            "* **QB-X-3** (withdrawn) Three. *Source: ours.*\n",
        )
    ]
)

IMPORT = "from specs.clauses import clause\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of Python into the project below ``tmp_path``."""

    def put(file: str, source: str) -> None:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")

    return put


def answering(coverage: Coverage) -> dict[str, list[str]]:
    return {name: [tie.test for tie in ties] for name, ties in coverage.tests.items()}


def test_each_clause_gets_the_tests_that_name_it(tmp_path: Path, write: Write) -> None:
    write(
        "tests/a/test_b.py", IMPORT + "@clause('QB-X-2', 'QB-X-1')\ndef test_c(): ..."
    )
    write("specs/conformance/d.py", IMPORT + "@clause('QB-X-1')\nasync def e(): ...")
    write("benchmarks/f.py", IMPORT + "@clause('QB-X-2')\nclass G: ...")

    coverage = weigh(CLAUSES, tmp_path)

    assert answering(coverage) == {
        "QB-X-1": ["specs/conformance/d.py::e", "tests/a/test_b.py::test_c"],
        "QB-X-2": ["benchmarks/f.py::G", "tests/a/test_b.py::test_c"],
    }
    assert coverage.sound
    assert coverage.withdrawn == ("QB-X-3",)


def test_a_clause_that_no_test_names_is_a_hole(tmp_path: Path, write: Write) -> None:
    write("tests/test_a.py", IMPORT + "@clause('QB-X-2')\ndef test_b(): ...")

    coverage = weigh(CLAUSES, tmp_path)

    assert coverage.holes == ("QB-X-1",)
    assert not coverage.sound


@pytest.mark.parametrize("gone", ["QB-X-3", "QB-X-4", "QB-Y-1"])
def test_a_test_of_a_withdrawn_or_unknown_clause_is_an_orphan(
    tmp_path: Path, write: Write, gone: str
) -> None:
    decorator = f"@clause('QB-X-1', 'QB-X-2', '{gone}')\n"
    write("tests/test_a.py", f"{IMPORT}{decorator}def test_b(): ...")

    coverage = weigh(CLAUSES, tmp_path)

    assert coverage.orphans == (Tie(gone, "tests/test_a.py::test_b", 2),)
    assert coverage.holes == ()
    assert not coverage.sound


def test_methods_and_nested_definitions_are_named_as_pytest_does(
    tmp_path: Path, write: Write
) -> None:
    write(
        "tests/test_a.py",
        """
        import sys
        from specs.clauses import clause

        if sys.version_info >= (3, 11):
            class TestB:
                @clause("QB-X-1")
                def test_c(self): ...

        with open("x"):
            @clause("QB-X-2")
            def test_d(): ...
        """,
    )

    assert answering(weigh(CLAUSES, tmp_path)) == {
        "QB-X-1": ["tests/test_a.py::TestB::test_c"],
        "QB-X-2": ["tests/test_a.py::test_d"],
    }


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from specs.clauses import clause", "clause"),
        ("from specs.clauses import clause as rule", "rule"),
        ("from specs import clauses", "clauses.clause"),
        ("from specs import clauses as c", "c.clause"),
        ("import specs.clauses", "specs.clauses.clause"),
        ("import specs.clauses as c", "c.clause"),
    ],
)
def test_the_decorator_is_known_under_every_name(
    tmp_path: Path, write: Write, imported: str, called: str
) -> None:
    write(
        "tests/test_a.py",
        f"import pytest\n{imported}\n@pytest.mark.slow\n@{called}('QB-X-1')\n"
        "@pytest.mark.parametrize('x', [1, 2])\ndef test_b(x): ...",
    )

    ties, troubles = read_ties(tmp_path)

    assert ties == [Tie("QB-X-1", "tests/test_a.py::test_b", 4)]
    assert troubles == []


def test_another_decorator_of_the_same_name_is_not_ours(
    tmp_path: Path, write: Write
) -> None:
    write("tests/test_a.py", "from law import clause\n@clause(7)\ndef test_b(): ...")

    assert read_ties(tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("decorator", "reason"),
    [
        ("@clause(NAME)", "clause id must be a literal, got NAME"),
        ("@clause(f'QB-X-{n}')", "clause id must be a literal, got f'QB-X-{n}'"),
        ("@clause(*NAMES)", "clause id must be a literal, got *NAMES"),
        ("@clause(1)", "clause id must be a literal, got 1"),
        ("@clause('RDV1')", "no clause id: 'RDV1'"),
        ("@clause(ids='QB-X-1')", "clause takes one or more ids, by position"),
        ("@clause()", "clause takes one or more ids, by position"),
        ("@clause", "clause is not called with any id"),
    ],
)
def test_the_coverage_reports_a_wrong_decorator_with_its_file_and_line(
    tmp_path: Path, write: Write, decorator: str, reason: str
) -> None:
    write("tests/test_a.py", f"{IMPORT}\n{decorator}\ndef test_b(): ...")

    coverage = weigh({}, tmp_path)

    assert coverage.troubles == (Trouble("tests/test_a.py", 3, reason),)
    assert str(coverage.troubles[0]) == f"tests/test_a.py:3: {reason}"
    assert not coverage.sound


def test_the_coverage_reports_a_file_that_cannot_be_parsed(
    tmp_path: Path, write: Write
) -> None:
    write("tests/test_a.py", IMPORT + "\ndef test_b(:\n")

    (trouble,) = weigh({}, tmp_path).troubles

    assert (trouble.file, trouble.line) == ("tests/test_a.py", 3)
    assert trouble.reason.startswith("cannot read")


def test_the_coverage_reports_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_bytes(b"clause \xff\xfe")

    (trouble,) = weigh({}, tmp_path).troubles

    assert trouble.file == "tests/test_a.py"


def test_nothing_of_the_project_is_imported(tmp_path: Path, write: Write) -> None:
    write(
        "tests/test_a.py",
        IMPORT + "raise SystemExit\n@clause('QB-X-1')\ndef test_b(): ...",
    )

    assert weigh(CLAUSES, tmp_path).holes == ("QB-X-2",)


def test_a_folder_without_tests_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot find tests"):
        weigh(load_clauses(), tmp_path)
