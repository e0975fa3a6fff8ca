"""`Side`: one of the two ends of a connection."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["SIDES", "Side", "other_side"]

Side = Literal[0, 1]  # 0 is the end of the acceptor, 1 that of the connector
SIDES: Final[tuple[Side, Side]] = (0, 1)


def other_side(side: Side) -> Side:
    """Return the side of the peer."""
    return 0 if side else 1
