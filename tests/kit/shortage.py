"""`Shortage`: a `MemoryError` at any one call within the library, in one thread.

A profile function counts the calls that the thread makes of Python functions of the
library, and raises at one of them. The interpreter then removes the function, so the
error comes once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import bus
import queuebroker

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Shortage"]

_ROOTS: Final = tuple(
    str(Path(str(each.__file__)).parent) for each in (bus, queuebroker)
)
# The code that recovers: it would need a second error.
_SPARED: Final = ("internal_errors.py", "peer_log.py")


class Shortage:
    """A lack of memory at the call of a number, from 0, counted from `begin`.

    struck: the function whose call failed; "" before.
    """

    def __init__(self, number: int) -> None:
        self.struck: str = ""
        self._left = number
        self._counts = False

    def install(self) -> None:
        """Watch the calls of the calling thread."""
        sys.setprofile(self._profile)

    def begin(self) -> None:
        """Count from now on; for any thread."""
        self._counts = True

    def end(self) -> None:
        """Count no more; for any thread."""
        self._counts = False

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not self._counts or not name.startswith(_ROOTS):
            return
        if name.endswith(_SPARED):
            return
        if self._left == 0:
            self._counts = False
            self.struck = f"{frame.f_code.co_qualname} in {name}"
            raise MemoryError("no memory for this call")
        self._left -= 1
