"""Descriptors that travel with a message: their last holder closes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Described", "close_all", "duplicates"]


class Described(bytes):
    """A message with its descriptors, which are closed unless they are taken."""

    _fds: tuple[int, ...] = ()

    @classmethod
    def of(cls, message: bytes, fds: Iterable[int]) -> Described:
        """Return a message that owns descriptors."""
        made = cls(message)
        made._fds = tuple(fds)
        return made

    def take(self) -> tuple[int, ...]:
        """Return the descriptors; the caller owns them from now on."""
        fds, self._fds = self._fds, ()
        return fds

    def __del__(self) -> None:
        close_all(self.take())


def duplicates(fds: Sequence[int]) -> list[int]:
    """Return duplicates of descriptors, so that the caller may close its own.

    Raises:
        OSError: one is no descriptor, or there are too many; nothing is left open.
        TypeError: one is no int.
    """
    made: list[int] = []
    try:
        made.extend(map(os.dup, fds))  # closed on exec, Python's default
    except BaseException:
        close_all(made)
        raise
    return made


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
