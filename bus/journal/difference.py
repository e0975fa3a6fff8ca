"""`compare`: two recordings message by message, for each sender and kind.

Two runs of one program differ in the times, the journals and the interleaving of the
senders. The messages of one task, and their order, need not differ. So the n-th message
of a sender is compared with its n-th message in the other recording.

Memory: the digests of the messages by which one recording is ahead of the other.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.journal.messages import RecordedMessage

__all__ = ["ComparedMessage", "ComparedSequence", "compare"]

_DIGEST_BYTES: Final = 16


@attrs.frozen
class ComparedMessage:
    """A message in one recording: its record, and the properties that are compared.

    kept: how many bytes of the payload were kept. digest: of these, None if none were.
    """

    wall_ns: int
    journal: int
    n: int
    receiver: str
    size: int
    kept: int
    digest: bytes | None


@attrs.define
class ComparedSequence:
    """The messages of one kind from one sender, in two recordings.

    counts: how many there are in each.
    equal: how many are equal before the first difference.
    by_size: how many of these lack a payload, or a part that the other recording has,
      so that only the sizes were compared.
    first, second: the first messages that differ, None where there are no more.
    different: True if there is a difference.
    """

    sender: str
    kind: str
    counts: list[int] = attrs.field(factory=lambda: [0, 0])
    equal: int = 0
    by_size: int = 0
    first: ComparedMessage | None = None
    second: ComparedMessage | None = None
    different: bool = False
    _ahead: deque[ComparedMessage] = attrs.field(factory=deque, repr=False)
    _ahead_side: int = attrs.field(default=0, repr=False)

    def add(self, side: int, message: RecordedMessage) -> None:
        """Add the next message of recording 0 or 1."""
        self.counts[side] += 1
        if self.different:
            return
        compared = _properties(message)
        if not self._ahead or self._ahead_side == side:
            self._ahead_side = side
            self._ahead.append(compared)
            return
        other = self._ahead.popleft()
        self._compare(*((compared, other) if side == 0 else (other, compared)))

    def finish(self) -> None:
        """Note the messages that only one recording has; call it last."""
        if self._ahead:
            left = self._ahead.popleft()
            self._differ(*((left, None) if self._ahead_side == 0 else (None, left)))

    def _compare(self, first: ComparedMessage, second: ComparedMessage) -> None:
        # Of two whole payloads of one size, as many bytes were kept.
        by_size = first.kept != second.kept or None in (first.digest, second.digest)
        alike = (first.receiver, first.size) == (second.receiver, second.size)
        if alike and (by_size or first.digest == second.digest):
            self.equal += 1
            self.by_size += by_size
        else:
            self._differ(first, second)

    def _differ(
        self, first: ComparedMessage | None, second: ComparedMessage | None
    ) -> None:
        self.first, self.second, self.different = first, second, True
        self._ahead.clear()


def compare(
    first: Iterable[RecordedMessage], second: Iterable[RecordedMessage]
) -> list[ComparedSequence]:
    """Compare two recordings; return one result per sender and kind, in that order."""
    found: dict[tuple[str, str], ComparedSequence] = {}
    for pair in itertools.zip_longest(first, second):
        for side, message in enumerate(pair):
            if message is None:
                continue
            key = message.sender, message.kind
            if key not in found:
                found[key] = ComparedSequence(*key)
            found[key].add(side, message)
    for each in found.values():
        each.finish()
    return [found[key] for key in sorted(found)]


def _properties(message: RecordedMessage) -> ComparedMessage:
    digest = None
    if message.encoded is not None:
        digest = hashlib.blake2b(message.encoded, digest_size=_DIGEST_BYTES).digest()
    return ComparedMessage(
        message.wall_ns,
        message.journal,
        message.n,
        message.receiver,
        message.size,
        len(message.encoded or b""),
        digest,
    )
