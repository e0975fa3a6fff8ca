"""Which tests may be skipped: ``python -m tests.skips RESULTS.xml``.

Reads a JUnit file written by pytest and ``allowed_skips.txt`` beside this module. Exit
codes: 0 every skip is allowed, 1 one is not or nothing was run, 2 wrong usage or no
such file. An expected failure counts as a skip: it hides as much.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Skip", "allowed_reasons", "main", "skips_in", "tests_in"]

_ALLOWED = Path(__file__).with_name("allowed_skips.txt")


@attrs.frozen
class Skip:
    """One test that was not run, and its reason."""

    test: str
    reason: str

    def allowed_by(self, patterns: Iterable[re.Pattern[str]]) -> bool:
        """Return whether one of the patterns is found in the reason."""
        return any(pattern.search(self.reason) for pattern in patterns)


def allowed_reasons(text: str) -> list[re.Pattern[str]]:
    """Read the patterns: one a line, below a comment with the reason.

    Raises:
        ValueError: a pattern is not below a comment.
    """
    patterns = []
    explained = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            explained = False
        elif line.startswith("#"):
            explained = True
        elif explained:
            patterns.append(re.compile(line.strip()))
        else:
            raise ValueError(f"line {number} allows a skip and does not say why")
    return patterns


def skips_in(results: ET.Element) -> list[Skip]:
    """List the tests that were skipped or expected to fail."""
    return [
        Skip(
            f"{case.get('classname', '')}::{case.get('name', '')}",
            skipped.get("message", ""),
        )
        for case in results.iter("testcase")
        for skipped in case.iter("skipped")
    ]


def tests_in(results: ET.Element) -> int:
    """Return the number of tests of the run."""
    return sum(1 for _ in results.iter("testcase"))


def main(arguments: list[str]) -> int:
    """Print every skip and whether it is allowed; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m tests.skips RESULTS.xml", file=sys.stderr)
        return 2
    try:
        results = ET.parse(arguments[0]).getroot()
    except (OSError, ET.ParseError) as error:
        print(f"cannot read the results of a test run: {error}", file=sys.stderr)
        return 2
    patterns = allowed_reasons(_ALLOWED.read_text(encoding="utf-8"))
    skips = skips_in(results)
    refused = [skip for skip in skips if not skip.allowed_by(patterns)]
    for skip in skips:
        verdict = "NOT ALLOWED" if skip in refused else "allowed"
        print(f"{verdict}: {skip.test}: {skip.reason}")
    count = tests_in(results)
    print(f"{count} tests, {len(skips)} skipped, {len(refused)} of them not allowed")
    return int(bool(refused) or not count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
