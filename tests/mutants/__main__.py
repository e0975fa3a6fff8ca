"""``python -m tests.mutants [--quick] [--all FOLDER] [--find] [ID ...]``.

It tests the suite: each mutant is the library with one fault, and some test must fail
that passes on the unchanged library in the same run. cosmic-ray makes the mutants of
pure code, a sample of each folder, and prints the survivors and a table; those of
``faults`` are made by hand.

Exit 0 if all faults are caught and each folder reaches the target, 1 if not, 4 if
something broke: an edit that does not apply, a test that cannot be collected.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.mutants.by_hand import QUICK, try_faults
from tests.mutants.catalogue import load_faults
from tests.mutants.library import LIBRARY, PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BROKEN: Final = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the requested mutants; return the exit code."""
    faults = load_faults()
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these faults")
    parser.add_argument("--quick", action="store_true", help="a few of each kind")
    parser.add_argument("--all", metavar="FOLDER", help="all mutants of this folder")
    parser.add_argument(
        "--machine", action="store_true", help="only those of cosmic-ray"
    )
    parser.add_argument(
        "--find", action="store_true", help="try all tests of the clauses of a fault"
    )
    options = parser.parse_args(arguments)
    wanted = set(options.ids or (QUICK if options.quick else ()))
    if unknown := wanted - {fault.id for fault in faults}:
        parser.error(f"no fault {', '.join(sorted(unknown))}")
    began = time.monotonic()
    _compile()
    codes = []
    if not options.ids:
        # Only here: it needs cosmic-ray.
        from tests.mutants.by_machine import try_changes  # noqa: PLC0415

        codes.append(_in_fork(lambda: try_changes(options.all, quick=options.quick)))
    if not options.all and not options.machine:
        some = [fault for fault in faults if not wanted or fault.id in wanted]
        codes.append(
            _in_fork(lambda: try_faults(some, find=options.find, whole=not wanted))
        )
    print(f"in {time.monotonic() - began:.0f} s")
    return max(codes)


def _compile() -> None:
    """Compile the library once, not in each program that a test starts."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for package in PACKAGES:
        compileall.compile_dir(LIBRARY / package, quiet=2)


def _in_fork(work: Callable[[], int]) -> int:
    """Call a function that collects tests: one process does that only once."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = BROKEN
        try:
            code = work()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else BROKEN


if __name__ == "__main__":
    sys.exit(main())
