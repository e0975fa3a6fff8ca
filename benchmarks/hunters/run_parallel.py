"""The program as a test that pytest-run-parallel runs in four threads at once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hunters.real_threads import goes_wrong

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NAME", "NEEDS", "hunt", "test_program"]

NAME = "pytest-run-parallel"
NEEDS = "pytest_run_parallel"

_ITERATIONS = 200  # per call of pytest, which runs all of them even if one fails


class _Hunt:
    """The arguments of the test, because pytest calls it without any."""

    path: Path
    note: Callable[[], None]
    found = False


def hunt(path: Path, _seed: int, note: Callable[[], None]) -> bool:
    """Run until a fault appears."""
    import pytest  # noqa: PLC0415 # only here

    _Hunt.path, _Hunt.note = path, staticmethod(note)
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder) / "test_fault.py"
        test.write_text(f"from {__name__} import test_program\n", encoding="utf-8")
        options = [
            "-qqq",
            "--capture=no",
            "--parallel-threads=4",
            f"--iterations={_ITERATIONS}",
        ]
        while pytest.main([*options, "-p", "no:cacheprovider", str(test)]) == 0:
            pass
    return _Hunt.found


def test_program() -> None:
    """Run the program in one of the parallel threads."""
    if not _Hunt.found:
        _Hunt.note()
        if goes_wrong(_Hunt.path):
            _Hunt.found = True
    assert not _Hunt.found
