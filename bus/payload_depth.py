"""`check_depth`: how deep the containers of an encoded payload lie in one another.

The decoder of msgspec recurses in C, once for each level. This module counts the levels
of a payload in a loop, and depends on neither.
"""

from __future__ import annotations

from typing import Final

from bus.errors import WireError

__all__ = ["DEPTH_MAX", "TOO_DEEP", "check_depth"]

DEPTH_MAX: Final = 32  # levels of nested containers
TOO_DEEP: Final = f"payload is more than {DEPTH_MAX} deep"

# MessagePack by its first byte: the number of bytes that follow it, or the width of
# the length field. An extension has one byte more than its length: its type.
_FOLLOWED_BY: Final = (
    {0xA0 + length: length for length in range(32)}
    | {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
    | {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    | {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
)
_EXTENSIONS: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_BYTES_OF_LENGTH: Final = (
    _EXTENSIONS
    | {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
    | {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
)


def check_depth(data: bytes | memoryview) -> None:
    """Reject data nested too deep, in a loop; the decoder finds all other errors."""
    to_come: list[int] = []  # items left in each enclosing container
    at = 0
    while at < len(data):
        head = data[at]
        at += 1
        items = 0
        if width := _BYTES_OF_LENGTH.get(head):
            length = int.from_bytes(data[at : at + width], "big")
            at += width
            if head < 0xDC:
                at += length + (head in _EXTENSIONS)
            else:
                items = length if head < 0xDE else 2 * length
        elif 0x80 <= head < 0xA0:
            items = head & 15 if head >= 0x90 else 2 * (head & 15)
        else:
            at += _FOLLOWED_BY.get(head, 0)
        if items:
            to_come.append(items)
            if len(to_come) > DEPTH_MAX:
                raise WireError(TOO_DEEP)
            continue
        while to_come:
            to_come[-1] -= 1
            if to_come[-1]:
                break
            to_come.pop()
