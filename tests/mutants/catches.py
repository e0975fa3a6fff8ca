"""The tests that caught the mutants in an earlier run, which a later run tries first.

Most mutants are caught again by the same test: one test takes seconds, and all tests of
the same clauses often a minute; without a fault, all tests of all mutants take half an
hour. A line of ``catches.txt`` has the id of a mutant and the id of that test. A wrong
line costs time, and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_catches", "write_catches"]

CATCHES: Final = Path(__file__).with_name("catches.txt")


def read_catches(path: Path = CATCHES) -> dict[str, str]:
    """Return the test that caught each mutant, by the mutant's id."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def write_catches(catches: Mapping[str, str], path: Path = CATCHES) -> None:
    """Replace the file by these catches, in the order of the ids."""
    text = "".join(f"{mutant} {catches[mutant]}\n" for mutant in sorted(catches))
    path.write_text(text, encoding="utf-8")
