"""The naive broker of the examples fails exactly the clauses that it must fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]

# By the mistake in the source; the page on testing one's own broker explains them.
WRONG = {
    "names are looked up with []": {"QB-RDV-13"},
    "any number is a port": {"QB-RDV-17"},
    "all connects wake and race for an offer": {"QB-RDV-6"},
    "an accept that is struck leaves its offer behind": {"QB-RDV-11"},
    "bytes(5) is five zeros": {"QB-SEND-3"},
    "receive says if where it must say while": {
        "QB-RECV-2",
        "QB-RECV-8",
        "QB-FIFO-1",
        "QB-FIFO-3",
        "QB-DISC-15",
    },
    "there is no half-disconnected": {
        "QB-DISC-2",
        "QB-DISC-6",
        "QB-DISC-11",
        "QB-DISC-12",
    },
}


@pytest.fixture(scope="module")
def reported() -> tuple[int, str]:
    """Return the exit code and the output of ``bus conformance``."""
    ran = subprocess.run(
        [
            *(sys.executable, "-c", "from bus.cli import main; main()"),
            *("conformance", "examples/naive_broker.py:factory"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert not ran.stderr
    return ran.returncode, ran.stdout


def test_naive_broker_fails_exactly_these(reported: tuple[int, str]) -> None:
    """Each failed clause follows from a mistake, and each mistake is found."""
    code, text = reported
    failed = text[text.index("\nfailed: ") : text.index("\nnot offered: ")]

    assert code == 1
    assert set(re.findall(r"^  (QB-\S+)", failed, re.MULTILINE)) == set().union(
        *WRONG.values()
    )


def test_naive_broker_is_driven_by_the_explorer(reported: tuple[int, str]) -> None:
    """The output says which driver was used."""
    pattern = r"^scenarios: \d+ under the explorer, \d on real threads$"
    assert re.search(pattern, reported[1], re.MULTILINE)


def _but_for_gaps(shown: str) -> str:
    """Return a pattern for shown output; a line "..." stands for omitted lines."""
    pieces = re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)
    return r"(?m:^)" + r"(?:.*\n)+?".join(map(re.escape, pieces))


def test_the_page_shows_this_very_verdict(reported: tuple[int, str]) -> None:
    """The output on the page about testing one's own broker is the real output."""
    page = (ROOT / "docs" / "how-to" / "test-your-own-broker.md").read_text()
    verdict, story = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    printed = reported[1][reported[1].index("conformance of ") :]

    assert re.fullmatch(_but_for_gaps(verdict), printed)
    assert re.search(_but_for_gaps(story), reported[1])


def test_the_output_shows_the_story_of_a_failure(reported: tuple[int, str]) -> None:
    """It shows the clause, the expected result, and the steps to the failure."""
    assert (
        "QB-RDV-6: Of several connects on one port the one that came first"
        in reported[1]
    )
    assert "passed over by a later one" in reported[1]
    assert "examples/naive_broker.py:" in reported[1]
