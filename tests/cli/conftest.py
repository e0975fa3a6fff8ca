"""Fixtures: a live bus of real processes, and two machines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.site import THERE, Site
from tests.process.real import Far

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def alpha() -> Iterator[Far]:
    """Give the master of a bus, with a task ``echo`` that answers with its input."""
    with Far("alpha", role="master") as far:
        far.started()
        far("counter('echo')")
        yield far


@pytest.fixture
def beta(alpha: Far) -> Iterator[Far]:
    """Give a slave of that bus, with a task ``far`` that answers with its input."""
    with Far("beta") as far:
        far.started()
        far("counter('far')")
        yield far


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines with keys of one authority."""
    yield Site(tmp_path)
    shutil.rmtree(f"{own_run_directory}-{THERE}", ignore_errors=True)
