"""What the tests of the bus for coroutines share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from bus import Incoming

__all__ = ["echo", "run"]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a loop of its own, within the limit of a test."""

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main

    asyncio.run(limited())


async def echo(message: Incoming) -> Any:
    """Answer with the payload: a handler."""
    return message.payload
