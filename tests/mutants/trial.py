"""``python -m tests.mutants.trial FILE TEST ...``: tests of a planted copy.

It imports the library from the folder of FILE, and writes the outcome to that file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import bus
import queuebroker
from tests.mutants.collected import Collected, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Run the tests."""
    file, tests = Path(arguments[0]), arguments[1:]
    copy = file.parent
    libraries = {Path(str(each.__file__)).parents[1] for each in (bus, queuebroker)}
    if libraries != {copy}:
        Outcome(trouble=f"not the library under test: {libraries}").write(file)
        return

    def work(collected: Collected) -> None:
        collected.run(tests, file)

    trouble = Collected(work).main(sorted({each.partition("::")[0] for each in tests}))
    Outcome(trouble=trouble).write(file)


if __name__ == "__main__":
    main(sys.argv[1:])
