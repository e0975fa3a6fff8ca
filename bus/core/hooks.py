"""`Hooks` and the slots: how features plug into the lower parts of the bus.

The kernel, the process and the API know no feature. A feature gives a `Hooks` to each
bus that uses it, or an object for a slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from bus.core.wire import Frame

__all__ = ["Hooks", "Watcher"]


def _nothing() -> None:
    """Do nothing."""


class Hooks(Struct, frozen=True, kw_only=True):
    """The functions of one feature for one bus; by default each does nothing.

    begin: called once this process has joined its network; if it raises, the join
      fails.
    end: called before this process leaves; perhaps repeatedly, or without `begin`.
    """

    begin: Callable[[], object] = _nothing
    end: Callable[[], object] = _nothing


class Watcher(Protocol):
    """A slot of the comm thread: sees the frames of all links.

    While there is a watcher, no task thread uses a link.
    """

    def on_frame(self, link: int, frame: Frame, *, out: bool) -> None:
        """See a frame before it is put on its link, or, once read, before its handling.

        The caller holds the lock of the links; no other lock is taken here.

        out: True for a frame of this process.
        """
