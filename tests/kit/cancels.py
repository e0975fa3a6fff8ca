"""A cancel before every step of a call, beside the event that the call waits for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import AsyncIterable, Callable, Iterator, Sequence

    from tests.kit.stepped_loop import SteppedLoop

__all__ = ["first_of", "orders", "play"]

T = TypeVar("T")

# More steps than any call that waits once takes.
_STEPS = 8


def orders() -> Iterator[list[tuple[int, str]]]:
    """Yield each order of the cancel, the awaited event, and the steps."""
    for cancel, act in itertools.product(range(_STEPS), repeat=2):
        events = [(cancel, "cancel"), (act, "act")]
        yield sorted(events, key=lambda event: event[0])
        if cancel == act:
            yield events[::-1]


def play(
    loop: SteppedLoop,
    task: Task[Any],
    act: Callable[[], object],
    events: Sequence[tuple[int, str]],
) -> None:
    """Trigger both events, each before its step, then run all remaining steps.

    act: triggers the event that the task waits for.
    events: one of `orders`.
    """
    for step in range(_STEPS):
        for when, event in events:
            if when == step:
                act() if event == "act" else task.cancel()
        loop.step()
    loop.run()
    assert task.done()


async def first_of(messages: AsyncIterable[T]) -> T:
    """Return the first message of an iteration."""
    async for message in messages:
        return message
    raise AssertionError
