"""What a benchmark collects before each turn."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Exempt the objects of earlier tests from the collection before each turn."""
    gc.freeze()
    yield
    gc.unfreeze()
