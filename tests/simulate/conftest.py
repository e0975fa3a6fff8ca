"""The stream window of simulated processes is short, so that the tests fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.constants import set_constants
from tests.simulate.process import STREAM_WINDOW

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def short_streams(own_run_directory: Path) -> None:  # it restores them
    set_constants(STREAM_WINDOW=STREAM_WINDOW)
