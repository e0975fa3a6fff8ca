"""The code in README and docs runs, and their links have targets.

All ``python`` blocks of a page are one program, as a reader would type them from top to
bottom; it runs in a fresh interpreter where every warning is an error. A block that
cannot run has the reason right above it: ``<!-- not run: it needs two machines -->``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_LIMIT_S = 100

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)")
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
_LISTED = re.compile(r"^\* \[[^\]]+\]\(([^)#]+)\):", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#")


def _pages() -> list[Path]:
    folders = ("docs", "benchmarks", "tests", "examples")
    inner = (page for folder in folders for page in (_ROOT / folder).rglob("*.md"))
    return [_ROOT / "README.md", *sorted(inner)]


def program_of(text: str) -> str:
    """Return the program on a page, with each line at its line number in the page.

    All other lines become empty, so that an error has the page's own line number.
    """
    lines = []
    closing, running, before = "", False, ""
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if closing:
            ends = line.strip().startswith(closing) and not line.strip(" `~")
            lines.append(line if running and not ends else "")
            closing = "" if ends else closing
        else:
            lines.append("")
            if fence:
                closing = fence[1]
                running = fence[2] == "python" and not _NOT_RUN.fullmatch(before)
        before = line.strip()
    return "\n".join(lines) + "\n"


def links_of(text: str) -> list[str]:
    """Return the files a page links to, outside of its code, without anchors."""
    prose = re.sub(
        r"^( {0,3})(`{3,}|~{3,}).*?^ {0,3}\2", "", text, flags=re.MULTILINE | re.DOTALL
    )
    prose = re.sub(r"`[^`\n]*`", "", prose)
    found = (match[1] for match in _LINK.finditer(prose))
    return [link.partition("#")[0] for link in found if not _ELSEWHERE.match(link)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(_ROOT)),
            marks=() if page.name == "README.md" else pytest.mark.deep,
        )
        for page in _pages()
    ],
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = program_of(page.read_text(encoding="utf-8"))
    if not program.strip():
        return
    script = tmp_path / page.name
    script.write_text(program, encoding="utf-8")

    answer = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(script)],
        cwd=tmp_path,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    assert answer.returncode == 0, answer.stdout
    # A thread's exception does not change the exit code.
    assert "Traceback (most recent call last)" not in answer.stdout, answer.stdout


@pytest.mark.parametrize(
    "page", _pages(), ids=lambda page: str(page.relative_to(_ROOT))
)
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    links = links_of(page.read_text(encoding="utf-8"))

    assert [link for link in links if not _leads_somewhere(page, link)] == []


def _leads_somewhere(page: Path, link: str) -> bool:
    """Look beside the page, and in the folder of the installed packages."""
    path = Path(os.path.normpath(page.parent / link))
    if path.exists():
        return True
    inner = path.relative_to(_ROOT)
    spec = importlib.util.find_spec(inner.parts[0])
    if spec is None or spec.origin is None:
        return False
    return (Path(spec.origin).parents[1] / inner).exists()


@pytest.mark.parametrize(
    ("folder", "pattern"), [("docs", "*.md"), ("examples", "*.py")]
)
def test_every_page_and_every_example_has_its_line_in_the_index(
    folder: str, pattern: str
) -> None:
    index = _ROOT / folder / "README.md"
    there = {path.relative_to(index.parent) for path in index.parent.rglob(pattern)}

    listed = _LISTED.findall(index.read_text(encoding="utf-8"))

    inner = sorted(link for link in listed if not link.startswith("../"))
    assert inner == sorted(map(str, there - {Path(index.name)}))


def test_the_readme_has_code_to_run() -> None:
    assert "import" in program_of((_ROOT / "README.md").read_text(encoding="utf-8"))


def test_blocks_of_a_page_are_one_program_in_place() -> None:
    page = (
        "# Title\n```python\na = 1\n```\ntext\n\n"
        "<!-- not run: it never ends -->\n```python\nwhile True: pass\n```\n"
        "```console\n$ ls\n```\n~~~python\nprint(a)\n~~~\n"
    )

    program = program_of(page)

    lines = program.splitlines()
    assert [line for line in lines if line] == ["a = 1", "print(a)"]
    assert lines.index("a = 1") == 2
    assert lines.index("print(a)") == page.splitlines().index("print(a)")


def test_a_block_without_a_reason_is_run() -> None:
    assert "b = 1" in program_of("<!-- not run: -->\n```python\nb = 1\n```\n")


def test_links_in_code_and_to_elsewhere_are_left_out() -> None:
    page = (
        "[a](a.md) ![b](pics/b.svg) [c](https://example.org/c) [d](#d) [e](e.md#part)\n"
        "`[f](f.md)`\n```text\n[g](g.md)\n```\n"
    )

    assert links_of(page) == ["a.md", "pics/b.svg", "e.md"]
