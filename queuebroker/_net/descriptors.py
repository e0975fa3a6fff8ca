"""`Descriptors`: descriptors of which no interrupt can lose one.

An interrupt comes between two calls, never within one that is made in C. So one such
call opens a descriptor and stores it, and one removes it and closes it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Descriptors"]

Ts = TypeVarTuple("Ts")


class Descriptors(list[int]):
    """Open descriptors, closed when this object is collected at the latest."""

    def open(self, opener: Callable[[*Ts], int], *arguments: *Ts) -> None:
        """Append the descriptor that a function written in C opens."""
        self.extend(map(opener, *((each,) for each in arguments)))

    def close(self) -> None:
        """Remove and close each descriptor."""
        while self:
            any(map(os.close, map(self.pop, (-1,))))

    def __del__(self) -> None:
        self.close()  # an interrupt may have hit the thread that was about to do it
