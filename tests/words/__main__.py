"""``python -m tests.words``: how the project reads, in numbers, folder by folder.

For each folder: how many clauses begin with *who*, *what* or the like in place of a
noun; how often a name stands that the project gave up; the longest file, class and
function, and the constructor with most parameters. Then the circles of imports of each
package, those for type checkers only included. It judges nothing: the exit code is 0.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.imports import Tree
from tests.words.names import gone_names
from tests.words.prose import prose_of, subjectless
from tests.words.sizes import Largest, largest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("queuebroker", "bus")
_TOPS: Final = (*_PACKAGES, "specs", "docs", "tests", "benchmarks", "examples")
_KINDS: Final = ("file", "class", "function", "constructor")


def folders() -> Iterator[tuple[str, list[Path]]]:
    """Give each folder with the files that lie in it, and not below."""
    for top in _TOPS:
        found: dict[str, list[Path]] = {}
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".py", ".md", ".pml"}:
                name = str(path.parent.relative_to(ROOT))
                found.setdefault(name, []).append(path)
        yield from sorted(found.items())
    yield ".", sorted(ROOT.glob("*.md"))


def main() -> int:
    """Print the table; return 0."""
    total, gone, where = 0, Counter[str](), dict[str, Counter[str]]()
    print(f"{'folder':28} {'clauses':>7} {'names':>6}  longest file, class, function")
    for folder, paths in folders():
        clauses = sum(subjectless(each) for path in paths for each in prose_of(path))
        python = [path for path in paths if path.suffix == ".py"]
        names = sum((gone_names(path, ROOT) for path in python), Counter[str]())
        largest = largest_of(python)
        sizes = ", ".join(
            _told(kind, largest[kind]) for kind in _KINDS if kind in largest
        )
        print(f"{folder:28} {clauses:7} {names.total():6}  {sizes}")
        total += clauses
        gone += names
        where[folder] = names
    print(f"\n{total} clauses without a noun, {gone.total()} names that went")
    for name, count in gone.most_common():
        most = max(where, key=lambda folder: where[folder][name])
        print(f"  {name:16} {count:5}, most in {most}")
    for package in _PACKAGES:
        circles = Tree.read(ROOT / package).circles()
        print(f"\n{package}: {len(circles)} circles of imports")
        for circle in circles:
            print(f"  {', '.join(circle)}")
    return 0


def _told(kind: str, largest: Largest) -> str:
    unit = " parameters" if kind == "constructor" else ""
    return f"{largest.name} {largest.size}{unit}"


if __name__ == "__main__":
    sys.exit(main())
