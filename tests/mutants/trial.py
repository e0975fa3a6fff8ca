"""``python -m tests.mutants.trial FD FOLDER TEST ...``: tests of a planted copy.

It imports the library from FOLDER and writes the outcome to the descriptor FD.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

import bus  # before pytest prefers the tree of the tests
import queuebroker
from tests.mutants.collected import Collected, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Run the tests."""
    out, folder, *tests = arguments
    result = Outcome(trouble="the tests have not run")

    def work(collected: Collected) -> None:
        nonlocal result
        libraries = {Path(str(each.__file__)).parents[1] for each in (bus, queuebroker)}
        if Path(folder).exists() and libraries != {Path(folder)}:
            result = Outcome(trouble=f"not the library under test: {libraries}")
            return
        sys.path.insert(0, folder)  # pytest has put the tree of the tests there
        result = collected.run(tests)

    trouble = Collected(work).main(sorted({each.partition("::")[0] for each in tests}))
    result = attrs.evolve(result, trouble=result.trouble or trouble)
    os.write(int(out), json.dumps(attrs.asdict(result)).encode())
    os._exit(0)  # threads that a mutant left behind do not matter


if __name__ == "__main__":
    main(sys.argv[1:])
