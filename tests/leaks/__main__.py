"""``python -m tests.leaks --cycles 10000``: resources of a bus as others come and go.

Prints a line for each tenth of the cycles of each kind. Exit 0 if nothing has grown
with them; 1, with the growth, otherwise.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.leaks.cycles import KINDS, repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.leaks.growth import Look

__all__ = ["main"]

_LOOKS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the given number of cycles; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.leaks")
    parser.add_argument("--cycles", type=int, default=10_000, help="of each kind")
    options = parser.parse_args(arguments)
    grew = False
    for kind in KINDS:
        print(f"{kind}:", flush=True)
        for sentence in repeated(kind, options.cycles, looks=_LOOKS, see=_show):
            print(f"  grows: {sentence}")
            grew = True
    print("something grows" if grew else "nothing grows")
    return int(grew)


def _show(look: Look) -> None:
    print(f"  {look}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
