"""A model of a pool in plain lists: free blocks, queued and leased messages.

It chooses the same blocks as the pool, so that the free queues of both can be compared
block by block. It stores contents as bytes, and shares nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.features.memory import Excerpt

__all__ = ["Group", "Held", "PoolModel"]

# A stretch of a buffer: its index, offset and length.
Stretch = tuple[int, int, int]


@attrs.define
class Group:
    """The chain of a whole message, and its holders."""

    chain: list[int]
    holders: int


@attrs.define
class Held:
    """The hold of one recipient on a message.

    blocks: the indirect blocks of its own. Of a whole message at most one; buffer by
      buffer one for each stretch, or None if the DCB of the stretch is its own.
    stretches: where its bytes are.
    group: that of a whole message; None buffer by buffer.
    """

    content: bytes
    blocks: list[int | None]
    stretches: list[Stretch]
    group: Group | None


@attrs.define
class PoolModel:
    """All blocks and messages of a pool."""

    buffers: int
    size: int
    icbs: int
    users: int
    free_direct: list[int] = attrs.field(init=False)
    free_indirect: list[int] = attrs.field(init=False)
    generations: Counter[int] = attrs.field(factory=Counter)
    # Buffer by buffer: the holders of each buffer.
    dups: Counter[int] = attrs.field(factory=Counter)
    queues: list[list[Held]] = attrs.field(init=False)
    leases: list[dict[int, Held]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.free_direct = list(range(self.buffers))
        self.free_indirect = list(range(self.buffers, self.buffers + self.icbs))
        self.queues = [[] for _ in range(self.users)]
        self.leases = [{} for _ in range(self.users)]

    def publish(self, content: bytes, users: Sequence[int]) -> bool:
        """Publish a whole message; return False, unchanged, if there is no room."""
        pieces = self._cut(content) or [b""]
        leased = self._lease(len(pieces), len(users) - 1)
        if leased is None:
            return False
        chain, more = leased
        stretches = [
            (buffer, 0, len(piece)) for buffer, piece in zip(chain, pieces, strict=True)
        ]
        group = Group(chain, len(users))
        for place, user in enumerate(users):
            blocks: list[int | None] = [more[place - 1]] if place else []
            self.queues[user].append(Held(content, blocks, stretches, group))
        return True

    def compose(
        self, parts: Sequence[bytes | Excerpt], original: Held | None, users: list[int]
    ) -> bool:
        """Publish a message buffer by buffer, as `publish` does a whole one."""
        units: list[bytes | Stretch] = []
        for part in parts:
            if isinstance(part, bytes):
                units += self._cut(part)
            else:
                assert original is not None
                buffer, offset, _ = original.stretches[part.position]
                assert part.length is not None
                units.append((buffer, offset + part.offset, part.length))
        units = units or [b""]
        new = sum(isinstance(unit, bytes) for unit in units)
        leased = self._lease(new, len(units) * len(users) - new)
        if leased is None:
            return False
        fresh, more = iter(leased[0]), iter(leased[1])
        stretches = [
            (next(fresh), 0, len(unit)) if isinstance(unit, bytes) else unit
            for unit in units
        ]
        content = b"".join(self._bytes_of(part, original) for part in parts)
        for place, user in enumerate(users):
            blocks = [
                None if place == 0 and isinstance(unit, bytes) else next(more)
                for unit in units
            ]
            self.queues[user].append(Held(content, blocks, stretches, None))
            self.dups.update(buffer for buffer, _, _ in stretches)
        return True

    def dequeue(self, user: int, lease: int) -> Held:
        held = self.queues[user].pop(0)
        self.leases[user][lease] = held
        return held

    def release(self, user: int, lease: int) -> None:
        held = self.leases[user].pop(lease)
        if held.group is not None:
            self._free(held.blocks)
            held.group.holders -= 1
            if held.group.holders == 0:
                self._free(held.group.chain)
            return
        for own, (buffer, _, _) in zip(held.blocks, held.stretches, strict=True):
            self._free([own])
            self.dups[buffer] -= 1
            if self.dups[buffer] == 0:
                self._free([buffer])

    def held(self) -> list[Held]:
        """Return every hold, queued or leased."""
        queued = [held for queue in self.queues for held in queue]
        return queued + [held for each in self.leases for held in each.values()]

    def holdings(self, user: int) -> tuple[int, int, int]:
        queued, leased = self.queues[user], list(self.leases[user].values())
        held = queued + leased
        buffers = sum(len(each.stretches) for each in held)
        return len(queued), len(leased), buffers * self.size

    def _bytes_of(self, part: bytes | Excerpt, original: Held | None) -> bytes:
        if isinstance(part, bytes):
            return part
        assert original is not None
        assert part.length is not None
        lengths = [length for _, _, length in original.stretches]
        at = sum(lengths[: part.position]) + part.offset
        return original.content[at : at + part.length]

    def _cut(self, content: bytes) -> list[bytes]:
        places = range(0, len(content), self.size)
        return [content[at : at + self.size] for at in places]

    def _lease(self, direct: int, indirect: int) -> tuple[list[int], list[int]] | None:
        lacking = max(0, indirect - len(self.free_indirect))
        if direct + lacking > len(self.free_direct):
            return None
        chain = [self.free_direct.pop(0) for _ in range(direct)]
        more = [self.free_indirect.pop(0) for _ in range(indirect - lacking)]
        return chain, more + [self.free_direct.pop(0) for _ in range(lacking)]

    def _free(self, blocks: Sequence[int | None]) -> None:
        for index in blocks:
            if index is None:
                continue
            self.generations[index] += 1
            home = self.free_direct if index < self.buffers else self.free_indirect
            home.append(index)
