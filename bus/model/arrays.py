"""Arrays: payloads of numbers of one type, in one or more dimensions (BUS-MSG-16).

An array is a `memoryview` with a shape and an item type. NumPy, `array` and `ctypes`
make arrays that speak the buffer protocol, and accept any object that does; so the bus
imports none of them. A view of single bytes in one dimension is bytes, unless its item
type begins with ``@``: by that, an array of bytes is told from bytes.

On the wire an array is one MessagePack extension: its header, zeros up to a multiple of
64 bytes, then the items. So the items of a payload that is one array are aligned if the
message is. In memory a frozen array is a view of the end of the very bytes that encode
it, so that neither sending nor receiving copies an array a second time.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol

from bus.errors import WireError

__all__ = [
    "DIMENSIONS_MAX",
    "EXTENSION_CODE",
    "MADE",
    "SupportsBuffer",
    "decode_array",
    "encode_array",
    "freeze_array",
    "is_array",
    "size_of_array",
]

EXTENSION_CODE: Final = 1  # the type of the MessagePack extension
DIMENSIONS_MAX: Final = 32  # of NumPy 1; NumPy 2 and memoryview know 64

_VERSION: Final = 1
_EXTENSION_32: Final = 0xC9  # MessagePack: an extension with a length of 32 bits
_EXTENSION: Final = struct.Struct("!BIb")  # that, the length, `EXTENSION_CODE`
# Version, order of the bytes of an item, item type, length of an item, dimensions.
_HEADER: Final = struct.Struct("!BccBB")
_LENGTH_MAX: Final = 2**32 - 1
_ALIGNMENT: Final = 64  # of a cache line, and of the widest vector instructions
_NATIVE: Final = b"<" if sys.byteorder == "little" else b">"
_ORDERS: Final = (b"<", b">")

# The item types, those of one kind together. Not all that `memoryview.cast` knows: an
# address (P) has no meaning elsewhere, and Python below 3.14 cannot cast to half
# precision (e), while processes of several versions may share a bus.
_KINDS: Final = ("bhilqn", "BHILQN", "fd", "?", "c")
_KIND_OF: Final = {char: kind for kind in _KINDS for char in kind}
# The item type of this machine, by kind and length in bytes.
_CHAR_OF: Final = {
    (kind, struct.calcsize(char)): char for kind in _KINDS for char in reversed(kind)
}
_BYTES: Final = frozenset("Bbc")
# What a format begins with if its items are of this machine: `ctypes` names the order.
_NATIVE_PREFIXES: Final = ("@", "=", _NATIVE.decode())
_PREFIXES: Final = "@=<>!"

# What to send instead of items of these formats.
_INSTEAD: Final = {
    "e": "send its bits, value.view('u2')",
    "Zf": "send its parts, value.view('f')",
    "Zd": "send its parts, value.view('d')",
    "O": "send a list, value.tolist()",
}
_SEND_BYTES: Final = (
    "send its bytes, value.tobytes(), together with shape and item type"
)


class SupportsBuffer(Protocol):
    """An object that exports its memory, as a NumPy array does; for type checkers.

    `typing_extensions.Buffer` is the same, but an import when the bus starts.
    """

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return a view of the memory of this object."""


class _Made:
    """The arrays that this process has made.

    any: True once it has made one. Each thread that has an array sees it set, since it
      is set before, and never reset. While it is unset, `encode` need not search the
      containers of a payload for arrays, which takes eight times as long as to encode
      them.
    """

    __slots__ = ("any",)

    def __init__(self) -> None:
        self.any = False


MADE: Final = _Made()


def is_array(view: memoryview) -> bool:
    """Return True for an array, False for a view of bytes."""
    return view.ndim != 1 or view.format.lstrip("=<>!") not in _BYTES


# At the sender.


def freeze_array(view: memoryview) -> memoryview:
    """Return a read-only view of a private copy, of the same shape and item type.

    Raises:
        ValueError: a message cannot carry the array; the text names a remedy.
    """
    char = _char_of(view)
    if (
        view.ndim == 0
    ):  # of NumPy, a number exports the same as an array of no dimension
        raise ValueError("view has no dimension; send its bytes, bytes(view)")
    if view.ndim > DIMENSIONS_MAX:
        raise ValueError(
            f"array has {view.ndim} dimensions, more than {DIMENSIONS_MAX}; "
            "send it with fewer, value.reshape(-1), together with its shape"
        )
    if not view.c_contiguous:
        raise ValueError(
            f"array of shape {view.shape} is not contiguous in C order; send a "
            "contiguous copy, numpy.ascontiguousarray(value)"
        )
    length = _start_of(view.ndim) - _EXTENSION.size + view.nbytes
    if length > _LENGTH_MAX:
        raise ValueError(
            f"array of {view.nbytes} bytes is longer than 4 GiB; send it in parts"
        )
    return _private(char, view.shape or (), view)


def _char_of(view: memoryview) -> str:
    """Return the item type of a view, without the order of its bytes.

    Raises:
        ValueError: it is none that a message can carry.
    """
    format_ = view.format
    char = format_.lstrip(_PREFIXES)
    if (
        char in _KIND_OF
        # ctypes names the native order, and means the lengths of this machine by it.
        and view.itemsize == struct.calcsize(char)
        and (char == format_ or format_[0] in _NATIVE_PREFIXES or view.itemsize == 1)
    ):
        return char
    if char in _KIND_OF:
        instead = f"convert it to the native order of bytes, value.astype({char!r})"
    else:
        instead = _INSTEAD.get(char, _SEND_BYTES)
    raise ValueError(
        f"array has items of format {format_!r}, not native numbers; {instead}"
    )


# The bytes of an array.


def size_of_array(view: memoryview) -> int:
    """Return the length of the encoding of a frozen array."""
    return _start_of(view.ndim) + view.nbytes


def encode_array(view: memoryview) -> bytes:
    """Return the encoding of a frozen array; if possible, the bytes behind the view."""
    head = _head(view.format.lstrip("@"), view.shape or (), view.nbytes)
    behind = view.obj
    # Bytes of that length and beginning hold no other items, since `_private` and
    # `decode_array` make views only of the bytes behind the head.
    if (
        type(behind) is bytes
        and len(behind) == len(head) + view.nbytes
        and behind.startswith(head)
    ):
        return behind
    return head + view.tobytes()


def _start_of(dimensions: int) -> int:
    """Return the distance of the items from the beginning of the encoding."""
    head = _EXTENSION.size + _HEADER.size + 8 * dimensions
    return -(-head // _ALIGNMENT) * _ALIGNMENT


def _head(char: str, shape: Sequence[int], nbytes: int) -> bytes:
    """Return the encoding of an array up to its items."""
    dimensions = len(shape)
    start = _start_of(dimensions)
    head = (
        _EXTENSION.pack(_EXTENSION_32, start - _EXTENSION.size + nbytes, EXTENSION_CODE)
        + _HEADER.pack(
            _VERSION, _NATIVE, char.encode(), struct.calcsize(char), dimensions
        )
        + struct.pack(f"!{dimensions}Q", *shape)
    )
    return head.ljust(start, b"\0")


def _private(char: str, shape: Sequence[int], items: memoryview | bytes) -> memoryview:
    """Return a view of a copy of the items, which lies in the encoding of the array."""
    head = _head(char, shape, memoryview(items).nbytes)
    encoding = b"".join((head, items))
    return _view(memoryview(encoding)[len(head) :], char, shape)


def _view(items: memoryview, char: str, shape: Sequence[int]) -> memoryview:
    """Return a view of the bytes of all items, with a shape and an item type."""
    MADE.any = True
    if 0 in shape:
        return _empty(char, shape)
    return items.cast(_format(char, shape), tuple(shape))


def _format(char: str, shape: Sequence[int]) -> Any:
    return f"@{char}" if char in _BYTES and len(shape) == 1 else char


def _empty(char: str, shape: Sequence[int]) -> memoryview:
    """Return a view without items; `memoryview.cast` makes none."""
    if len(shape) == 1:
        one = memoryview(bytes(struct.calcsize(char)))
        return one.cast(_format(char, shape))[:0]
    from bus.model.empty_view import empty_view  # noqa: PLC0415 # loads ctypes, rarely needed

    return empty_view(char, shape)


# At the receiver.


def decode_array(content: memoryview, *, whole: bool) -> memoryview:
    """Return the array that a peer has encoded.

    The result is a view of ``content``, which it keeps alive, if ``whole`` is true and
    ``content`` cannot change. But of bytes that hold other messages, too, it is a
    copy: one message would keep all of them, and its items would not be aligned.

    Args:
        content: the content of the extension, as a view of bytes.
        whole: True if the array is the whole payload.

    Raises:
        WireError: the content is not that of exactly one array.
    """
    start = _start_of(0) - _EXTENSION.size
    if len(content) < start:
        raise WireError(f"payload holds an array of {len(content)} bytes only")
    version, order, code, item, dimensions = _HEADER.unpack_from(content)
    if version != _VERSION:
        raise WireError(f"payload holds an array of version {version}")
    kind = _KIND_OF.get(code.decode("latin-1"))
    # The lengths of the types of C differ between machines.
    char = None if kind is None else _CHAR_OF.get((kind, item))
    if order not in _ORDERS or kind is None or char is None:
        raise WireError(
            f"payload holds an array of items of type {code!r} with {item} bytes in "
            f"order {order!r}"
        )
    if code.decode() in kind and struct.calcsize(code) == item:
        char = code.decode()
    if not 0 < dimensions <= DIMENSIONS_MAX:
        raise WireError(f"payload holds an array of {dimensions} dimensions")
    start = _start_of(dimensions) - _EXTENSION.size
    shape = _shape_of(content, dimensions, start, item)
    items = content[start:]
    if order != _NATIVE and item > 1:
        return _private(char, shape, _swapped(items, item))
    if whole and content.readonly and not _is_shared(content):
        return _view(items, char, shape)
    return _private(char, shape, items)


def _shape_of(
    content: memoryview, dimensions: int, start: int, item: int
) -> tuple[int, ...]:
    """Return the shape that a header gives, which is that of the items behind it.

    Raises:
        WireError: it is another one, or the header is not as `_head` makes it.
    """
    if len(content) < start:
        raise WireError(f"payload holds an array of {len(content)} bytes only")
    shape = struct.unpack_from(f"!{dimensions}Q", content, _HEADER.size)
    if any(content[_HEADER.size + 8 * dimensions : start]):
        raise WireError("payload holds an array with a header that is not padded by 0")
    length = len(content) - start
    if math.prod(shape) * item != length:
        raise WireError(
            f"payload holds an array of shape {shape} with {length} bytes of items"
        )
    # Without items, any numbers may stand beside the 0; a view counts by machine words.
    if math.prod(count or 1 for count in shape) * item > sys.maxsize:
        raise WireError(f"payload holds an array of shape {shape}, out of range")
    return shape


def _is_shared(content: memoryview) -> bool:
    """Return True if the bytes behind an extension hold more than that extension."""
    behind = content.obj
    return type(behind) is bytes and len(behind) > _EXTENSION.size + len(content)


def _swapped(items: memoryview, item: int) -> bytes:
    """Return items with their bytes in the opposite order."""
    source, swapped = bytes(items), bytearray(len(items))
    for at in range(item):
        swapped[at::item] = source[item - 1 - at :: item]
    return bytes(swapped)
