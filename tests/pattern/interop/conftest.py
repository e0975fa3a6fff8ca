"""The foreign libraries of a run, and the sockets of a test."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pattern.interop.testbed import Libraries, Testbed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
    """Provide the programs of the foreign libraries."""
    made = Libraries()
    # Started here, not in a test, which would seem to leak their pipes.
    for name in ("nng", "nanomsg"):
        made.start_if_present(name)
    yield made
    made.close()


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
