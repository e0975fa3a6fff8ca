"""The pages for newcomers explain the terms of the bus where they first use them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_TERMS = ("relay", "signalling link", "comm thread")


def _pages() -> list[Path]:
    folders = (_ROOT / "docs" / name for name in ("tutorial", "how-to"))
    inner = (page for folder in folders for page in folder.glob("*.md"))
    return [_ROOT / "README.md", *sorted(inner)]


def unexplained(text: str) -> list[str]:
    """Return the terms whose first use in a text is not the bold one that explains."""
    words = " ".join(text.lower().split())
    return [
        term
        for term in _TERMS
        if (found := re.search(rf"(\*\*)?\b{term}", words)) and found[1] is None
    ]


@pytest.mark.parametrize(
    "page", _pages(), ids=lambda page: str(page.relative_to(_ROOT))
)
def test_a_page_explains_a_term_at_its_first_use(page: Path) -> None:
    assert unexplained(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("no term", []),
        ("A **relay** stands for a task. Its relays", []),
        ("Relays. A **relay** stands for a task.", ["relay"]),
        ("a signalling\n  link, **comm thread**", ["signalling link"]),
    ],
)
def test_only_a_bold_first_use_explains(text: str, terms: list[str]) -> None:
    assert unexplained(text) == terms
