"""The result for a list of files: totals, largest, duplicates; and its comparison.

`serial_inventory` is the reference: a plain loop with `hashlib`, no thread, no channel.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from bus.demo.files import FileList

__all__ = ["Comparison", "Inventory", "serial_inventory"]


@attrs.frozen(slots=True)
class Comparison:
    """The comparison of two runs over one list.

    differing: indices of files with different content, or that one run found twice or
      not at all though both could read them.
    vanished: indices of files that only one of the runs could read; not an error.
    """

    differing: tuple[int, ...]
    vanished: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """True if the runs agree about every file that both could read."""
        return not self.differing


@attrs.define(slots=True)
class Inventory:
    """Size and SHA-256 of each file, by its index in the list.

    unread: why a file could not be read, by index.
    """

    sizes: dict[int, int] = attrs.field(factory=dict)
    digests: dict[int, str] = attrs.field(factory=dict)
    unread: dict[int, str] = attrs.field(factory=dict)

    def add(self, index: int, size: int, digest: str) -> None:
        """Add one file."""
        self.sizes[index] = size
        self.digests[index] = digest

    @property
    def files(self) -> int:
        """The number of files that were read."""
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """The number of bytes in all of them."""
        return sum(self.sizes.values())

    def duplicates(self) -> list[list[int]]:
        """Return the groups of files with the same content, largest content first."""
        groups: dict[str, list[int]] = {}
        for index in sorted(self.digests):
            groups.setdefault(self.digests[index], []).append(index)
        same = [group for group in groups.values() if len(group) > 1]
        return sorted(same, key=lambda group: (-self.sizes[group[0]], group))

    def largest(self, count: int) -> list[int]:
        """Return the indices of the largest files, largest first."""
        order = sorted(self.sizes, key=lambda index: (-self.sizes[index], index))
        return order[:count]

    def compare(self, other: Inventory) -> Comparison:
        """Compare with another run over the same list."""
        known = self.digests.keys() | other.digests.keys()
        unreadable = self.unread.keys() | other.unread.keys()
        differing = [
            index
            for index in sorted(known - unreadable)
            if self.digests.get(index) != other.digests.get(index)
            or self.sizes.get(index) != other.sizes.get(index)
        ]
        return Comparison(tuple(differing), tuple(sorted(known & unreadable)))


def serial_inventory(files: FileList) -> Inventory:
    """Read and hash all files in a plain loop."""
    found = Inventory()
    for index in range(len(files)):
        try:
            content = files.read(index)
        except OSError as error:
            found.unread[index] = error.strerror or str(error)
        else:
            found.add(index, len(content), hashlib.sha256(content).hexdigest())
    return found
