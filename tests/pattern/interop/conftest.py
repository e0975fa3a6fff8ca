"""The foreign libraries of a run, and the sockets of a test."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.pattern.interop.testbed import Libraries, Testbed

if TYPE_CHECKING:
    from collections.abc import Iterator


# Programs start outside of a test, which would seem to leak their pipes.
_LIBRARIES: Final = Libraries()


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
    """Provide the programs of the foreign libraries."""
    for name in ("nng", "nanomsg"):
        _LIBRARIES.start_if_present(name)
    yield _LIBRARIES
    _LIBRARIES.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Start libraries again that died or hung in the test before."""
    _LIBRARIES.start_again()


@pytest.fixture
def testbed(libraries: Libraries) -> Iterator[Testbed]:
    """Provide sockets and addresses, and close them at the end."""
    # Not `tmp_path`, which is too long for a socket file.
    folder = Path(tempfile.mkdtemp(prefix="sp-"))
    made = Testbed(libraries, folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)
