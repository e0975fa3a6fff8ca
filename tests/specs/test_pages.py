"""The pages agree with one another, with their index and with the rules in code."""

from __future__ import annotations

import importlib.resources
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import specs
from bus.journal.rules import RULES
from specs.clauses import load_clauses

PAGES = {
    page.name: page.read_text(encoding="utf-8")
    for page in importlib.resources.files("specs").iterdir()
    if page.name.endswith(".md")
}
SECTIONS = {
    "Over", "Conn", "Send", "Recv", "Disc", "Mgr",
    "Static", "RdV", "Chan", "ChDisc", "QConn", "QRW", "AMO", "BUS", "CAST", "NOTE",
}  # fmt: skip

_CLAUSE = re.compile(r"\b(?:(?:QB|BUS)-[A-Z]+|AMO|BP)-\d+\b")
_READING = re.compile(r"\bA\d+\b")


def readings() -> dict[str, str]:
    """Return each reading with its text, by its number."""
    parts = re.split(r"^## (A\d+) ", PAGES["readings.md"], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def decided_by(text: str) -> set[str]:
    """Return the clauses that a reading says follow from it."""
    _, found, last = text.rpartition("\nDecides ")
    assert found, text
    return set(_CLAUSE.findall(last))


def test_readings_are_numbered_without_a_gap() -> None:
    assert list(readings()) == [f"A{number}" for number in range(1, 28)]


@pytest.mark.parametrize("number", readings())
def test_a_reading_and_the_clauses_it_decides_name_each_other(number: str) -> None:
    decided = decided_by(readings()[number])
    citing = {
        each.id
        for each in load_clauses().values()
        if number in _READING.findall(each.source)
    }

    assert decided == citing


@pytest.mark.deep
@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_clauses_readings_and_pages_that_exist(page: str) -> None:
    text = PAGES[page].replace("QB-XYZ-1", "")  # the sample of README.md

    unknown = set(_CLAUSE.findall(text)) - load_clauses().keys()
    unread = set(_READING.findall(text)) - readings().keys()
    dangling = set(re.findall(r"\]\(([^)]+)\)", text)) - PAGES.keys()

    assert (unknown, unread, dangling) == (set(), set(), set())


def test_sources_cite_only_sections_that_the_index_explains() -> None:
    explained = set(re.findall(r"^\| \[(\w+)\] \|", PAGES["README.md"], re.MULTILINE))
    cited = {
        mark
        for each in load_clauses().values()
        for mark in re.findall(r"\[(\w+)\]", each.source)
    }

    assert explained == SECTIONS
    assert cited <= explained


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"^\| \[(\S+\.md)\]", PAGES["README.md"], re.MULTILINE))

    assert listed == PAGES.keys() - {"README.md"}


def test_the_traffic_rules_of_the_pages_match_the_checked_rules() -> None:
    rules = {
        each.id: each
        for each in load_clauses().values()
        if each.group in {"J", "Q", "B"}
    }

    assert rules.keys() == RULES.keys()
    for name, rule in RULES.items():
        assert f"On {rule.basis}" in rules[name].text, name


def test_clauses_are_found_in_an_installed_package(tmp_path: Path) -> None:
    # A zip on the path is the hardest kind of installation: there are no files.
    archive = tmp_path / "specs.zip"
    folder = Path(specs.__file__).parent
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in (*folder.glob("*.py"), *folder.glob("*.md")):
            zipped.write(file, f"specs/{file.name}")
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import specs.clauses; assert '.zip' in specs.clauses.__file__\n"
        "print(len(specs.clauses.load_clauses()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(done.stdout) == len(load_clauses())
