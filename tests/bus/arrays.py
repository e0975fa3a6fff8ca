"""Arrays to draw in tests, and their encodings."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from bus.model.arrays import EXTENSION_CODE
from bus.model.payload import decode, freeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = [
    "ARRAYS",
    "FORMATS",
    "NATIVE",
    "OTHER",
    "SHAPES",
    "assert_same",
    "decoded_array",
    "extension",
    "frozen_array",
    "zeros",
]

# All item types that a message can carry.
FORMATS = "bBhHiIlLqQnNfd?c"
NATIVE = b"<" if sys.byteorder == "little" else b">"
OTHER = ">" if NATIVE == b"<" else "<"  # as NumPy names it

SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple) | st.just(
    (1,) * 27 + (2,) * 5
)


def _filled(format_: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    random = np.random.default_rng(seed)
    kind = np.dtype("S1" if format_ == "c" else format_)
    size = int(np.prod(shape)) * kind.itemsize
    data = random.integers(0, 2 if format_ == "?" else 128, size, np.uint8)
    return data.view(kind).reshape(shape)


# Without a NaN, which is equal to nothing. NumPy exports its S1 as "1s", not as "c".
ARRAYS = st.builds(
    _filled,
    st.sampled_from(FORMATS.replace("c", "").replace("nN", "")),
    SHAPES,
    st.integers(0, 2**32),
)


def zeros(format_: str, shape: Sequence[int]) -> memoryview:
    """Return a view of a format and a shape; one of ``shape`` may be 0 if it is all."""
    item = struct.calcsize(format_)
    cast: Any = memoryview(bytes(item * (int(np.prod(shape)) or 1))).cast
    made: memoryview = cast(format_)[:0] if 0 in shape else cast(format_, tuple(shape))
    return made


def extension(
    content: bytes | bytearray = b"",
    *,
    version: int = 1,
    order: bytes = NATIVE,
    char: bytes = b"d",
    item: int = 8,
    shape: Sequence[int] = (1,),
    items: bytes = bytes(8),
    padding: int | None = None,
) -> bytes:
    """Return an extension as a peer may encode it, of this content or these fields.

    padding: the number of zeros before the items; None for the right one.
    """
    if not content:
        head = struct.pack("!BccBB", version, order, char, item, len(shape))
        head += struct.pack(f"!{len(shape)}Q", *shape)
        if padding is None:
            padding = -(len(head) + 6) % 64
        content = head + bytes(padding) + items
    return struct.pack("!BIb", 0xC9, len(content), EXTENSION_CODE) + content


def frozen_array(sent: object) -> memoryview:
    """Return the frozen form of an array."""
    frozen = freeze(sent)
    assert isinstance(frozen, memoryview)
    return frozen


def decoded_array(data: bytes | memoryview) -> memoryview:
    """Return the array that a peer has encoded."""
    made = decode(data)
    assert isinstance(made, memoryview)
    return made


def assert_same(received: object, sent: npt.NDArray[Any]) -> None:
    assert isinstance(received, memoryview)
    assert received.readonly
    made = np.asarray(received)
    assert (made.dtype, made.shape) == (sent.dtype, sent.shape)
    assert (made == sent).all()
