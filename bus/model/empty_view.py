"""`empty_view`: a view with several dimensions and no items.

`memoryview.cast` refuses a 0 in a shape, and no other call of Python below 3.12 makes
such a view. But arrays without items are common, for example the boxes that a detector
found in an image: shape (0, 4). If they could not be sent, a program would fail on the
first image without a box.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["empty_view"]


class _Buffer(ctypes.Structure):
    """``Py_buffer``, which is in the stable ABI since Python 3.11."""

    _fields_ = (
        ("buf", ctypes.c_char_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


# A view copies shape and strides, but neither the format nor the memory, so both must
# live as long as any view: these are never deleted. No view has an owner to release.
_MEMORY: Final = b"\0" * 16
_FORMATS: Final = {char: char.encode() for char in "bhilqnBHILQNfd?c"}

_view_of: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Buffer))(
    ("PyMemoryView_FromBuffer", ctypes.pythonapi)
)


def empty_view(char: str, shape: Sequence[int]) -> memoryview:
    """Return a read-only view of native items, of a shape that contains a 0.

    char: one of ``bhilqnBHILQNfd?c``, as in `struct`.
    shape: the product of its numbers, without each 0, and of the length of an item must
      be at most `sys.maxsize`, since strides are bytes in a machine word.
    """
    assert 0 in shape
    dimensions = len(shape)
    item = memoryview(_MEMORY).cast(char).itemsize  # type: ignore[call-overload] # as above
    words = ctypes.c_ssize_t * dimensions
    strides = [
        item * math.prod(count or 1 for count in shape[at + 1 :])
        for at in range(dimensions)
    ]
    buffer = _Buffer(
        buf=_MEMORY,
        len=0,
        itemsize=item,
        readonly=1,
        ndim=dimensions,
        format=_FORMATS[char],
        shape=words(*shape),
        strides=words(*strides),
    )
    view: memoryview = _view_of(ctypes.byref(buffer))
    return view
