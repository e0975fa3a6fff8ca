"""The parameters of the tests over all transports, and a stack for their sockets."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.pattern.nodes import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Each transport of connections."""
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["native", "plain"])
def native(request: pytest.FixtureRequest) -> bool:
    """Whether the sockets recognise one another, or connect as those of NNG do."""
    return bool(request.param)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Provide a stack that closes the sockets entered into it."""
    with ExitStack() as opened:
        yield opened
