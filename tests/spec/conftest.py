"""What tests of our own brokers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerManager
from tests.support import switch_interval

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def manager() -> Iterator[BrokerManager]:
    """Give a name space of its own."""
    with BrokerManager() as manager:
        yield manager


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads change places as often as the interpreter can."""
    with switch_interval(1e-6):
        yield
