"""Fixtures shared by the tests of our own brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerManager
from tests.kit.stepped_loop import stepped_loop
from tests.support import switch_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.stepped_loop import SteppedLoop


@pytest.fixture
def manager() -> Iterator[BrokerManager]:
    """Return a separate name space."""
    with BrokerManager() as manager:
        yield manager


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """Return an event loop that the test drives step by step."""
    with stepped_loop() as loop:
        yield loop


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Make the interpreter switch threads as often as it can."""
    with switch_interval(1e-6):
        yield
