"""Messages and loans that an arena shares with recipients, as lists of placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from bus.features.memory.arena import Arena, ArenaLoan, Placement

__all__ = ["publish", "publish_loan"]


def publish(arena: Arena, content: Buffer, to: Iterable[int]) -> list[Placement]:
    """Publish a message; return its placement for each recipient that gets it."""
    return list(arena.publish(content, to).values())


def publish_loan(
    arena: Arena, loan: ArenaLoan, to: Iterable[int], length: int | None = None
) -> list[Placement]:
    """Share a loan, and take it back; return the placements as `publish` does.

    length: how many of its bytes; by default all.
    """
    placements = [arena.share(loan, each, length) for each in to]
    arena.take_back(loan)
    return [each for each in placements if each is not None]
