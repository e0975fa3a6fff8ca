"""The outputs that the tutorial shows are the real outputs.

Every ``print`` of the page has a comment with its output; ``...`` in it matches any
text.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import program_of

_FOLDER = Path(__file__).parents[1] / "docs" / "tutorial"
_PRINT = re.compile(r"^ *print\(.*\)(?:  # (.+))?$", re.MULTILINE)


@pytest.mark.deep
@pytest.mark.parametrize(
    "page", sorted(_FOLDER.glob("*.md")), ids=lambda page: str(page.name)
)
def test_a_tutorial_prints_its_stated_output(page: Path, tmp_path: Path) -> None:
    program = program_of(page.read_text(encoding="utf-8"))
    script = tmp_path / "tutorial.py"
    script.write_text(program, encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(script)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    said = [match[1] for match in _PRINT.finditer(program)]
    assert None not in said
    printed = ran.stdout.splitlines()
    assert len(printed) == len(said)
    unlike = [
        (line, words)
        for line, words in zip(printed, said, strict=True)
        if not _is_like(line, words)
    ]
    assert unlike == []


def _is_like(line: str, words: str) -> bool:
    # Only the dots are special: brackets of lists match themselves.
    pattern = re.sub(r"([\[*?])", r"[\1]", words).replace("...", "*")
    return fnmatch.fnmatchcase(line, pattern)


@pytest.mark.parametrize(
    ("line", "words", "like"),
    [
        ("[1, 2]", "[1, 2]", True),
        ("1", "[1]", False),
        ("<Bus 7 closed>", "<Bus ... closed>", True),
        ("<Bus 7 open>", "<Bus ... closed>", False),
        ("a*b", "a*b", True),
        ("aXb", "a*b", False),
    ],
)
def test_dots_stand_for_anything_and_nothing_else_does(
    line: str, words: str, like: bool
) -> None:
    assert _is_like(line, words) == like
