"""`size_of`: the length of the MessagePack encoding of a frozen payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.arrays import is_array, size_of_array

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["size_of", "size_with_length"]


def size_of(frozen: Any) -> int:
    """Return the length of the encoding of a frozen payload, without encoding it."""
    return _SIZES[type(frozen)](frozen)


def _size_of_int(number: int) -> int:
    if -32 <= number < 128:
        return 1
    bits = number.bit_length() if number > 0 else (~number).bit_length() + 1
    return 2 if bits <= 8 else 3 if bits <= 16 else 5 if bits <= 32 else 9


def _size_of_str(text: str) -> int:
    count = len(text) if text.isascii() else len(text.encode())
    return count + 1 if count < 32 else size_with_length(count)


def size_with_length(count: int) -> int:
    """Return the length of the encoding of bytes, by their number."""
    return count + (2 if count < 2**8 else 3 if count < 2**16 else 5)


def _size_of_head(count: int) -> int:
    return 1 if count < 16 else 3 if count < 2**16 else 5


def _size_of_items(items: Collection[Any]) -> int:
    return sum([_SIZES[type(item)](item) for item in items])


_SIZES: Final[Mapping[type, Callable[[Any], int]]] = {
    type(None): lambda _: 1,
    bool: lambda _: 1,
    int: _size_of_int,
    float: lambda _: 9,
    str: _size_of_str,
    bytes: lambda data: size_with_length(len(data)),
    memoryview: lambda view: (
        size_of_array(view) if is_array(view) else size_with_length(len(view))
    ),
    tuple: lambda items: _size_of_head(len(items)) + _size_of_items(items),
    dict: lambda items: (
        _size_of_head(len(items))
        + _size_of_items(items)
        + _size_of_items(items.values())
    ),
}
