"""A bus for each test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.testing import memory_bus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus


@pytest.fixture
def bus() -> Iterator[Bus]:
    """Give a bus that only this test is on."""
    with memory_bus() as bus:
        yield bus
