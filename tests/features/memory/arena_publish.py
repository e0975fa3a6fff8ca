"""Messages and loans that recipients of an arena dequeue, as lists of placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from bus.features.memory.arena import Arena, ArenaLoan, Placement

__all__ = ["publish", "publish_loan", "take"]


def publish(arena: Arena, content: Buffer, to: Iterable[int]) -> list[Placement]:
    """Publish a message; return its placement for each recipient that gets it."""
    return take(arena, arena.publish(content, to))


def publish_loan(
    arena: Arena, loan: ArenaLoan, to: Iterable[int], length: int | None = None
) -> list[Placement]:
    """Enqueue a loan, and end it; return the placements as `publish` does.

    length: how many of its bytes; by default all.
    """
    placements = take(arena, [each for each in to if arena.enqueue(loan, each, length)])
    arena.release_loan(loan)
    return placements


def take(arena: Arena, numbers: Iterable[int]) -> list[Placement]:
    """Dequeue a message that is there for each of these recipients."""
    placements = [arena.dequeue(each) for each in numbers]
    return [each for each in placements if each is not None]
