"""An arena for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.memory.arena import Arena
from tests.features.memory.arena_reader import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Provide an arena of 16 MiB, closed at the end."""
    made = Arena(16 * MIB)
    yield made
    made.close()
