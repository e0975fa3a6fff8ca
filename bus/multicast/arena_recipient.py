"""`ArenaRecipient`: the leases of one recipient of an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.multicast.slab_buffer import SlabBuffer

__all__ = ["ArenaRecipient"]


class ArenaRecipient:
    """The messages that one recipient has leased, and the bytes of their buffers.

    Invariant: ``held_bytes`` is the sum of the sizes of all buffers in ``leases``.

    Attributes:
        leases: the buffer of each lease, by the id of the lease; the oldest is first.
        held_bytes: compared with the share of the recipient (MC-31).
    """

    __slots__ = ("held_bytes", "leases")

    def __init__(self) -> None:
        self.leases: Final[dict[int, SlabBuffer]] = {}
        self.held_bytes: int = 0
