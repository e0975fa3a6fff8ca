"""`Carried`: a payload with the trace context of its sender (BUS-MSG-21).

On the wire it is one MessagePack extension: the lengths of the two texts of the
context, as 1 and 2 bytes in network order, the texts in ASCII, and the encoding of the
payload. It is a whole body: it lies in no list or map, nor in another one. Receivers
never see it: `bus.model.payload.decode` returns the payload alone, unless the feature
that traces messages takes the context off.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from msgspec import Struct

from bus.errors import WireError

__all__ = ["CARRIED_CODE", "CONTEXTS", "Carried", "Context", "pack", "size", "unpack"]

CARRIED_CODE: Final = 2  # the type of the MessagePack extension

_EXTENSION_32: Final = 0xC9  # MessagePack: an extension with a length of 32 bits
_EXTENSION: Final = struct.Struct("!BIb")  # that, the length, `CARRIED_CODE`
_LENGTHS: Final = struct.Struct("!BH")


class Context(NamedTuple):
    """The context of a trace, as the W3C defines its two texts, in ASCII.

    parent: `traceparent`, at most 255 characters.
    state: `tracestate`, at most 65,535 characters; "" for none.
    """

    parent: str
    state: str


class Carried(Struct, frozen=True):
    """A payload, and the context in which it was sent."""

    context: Context
    payload: Any


class _Contexts:
    """Whether this process takes contexts off messages.

    kept: True if `decode` returns the `Carried`, for a `Receiver` that is traced.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False


CONTEXTS: Final = _Contexts()


def size(context: Context, body: int) -> int:
    """Return the length of the encoding, for a payload whose encoding has ``body``."""
    return _EXTENSION.size + _LENGTHS.size + sum(map(len, context)) + body


def pack(context: Context, body: bytes) -> bytes:
    """Return the encoding; ``body`` is that of the payload."""
    texts = [text.encode("ascii") for text in context]
    lengths = _LENGTHS.pack(*map(len, texts))
    content = b"".join([lengths, *texts, body])
    return _EXTENSION.pack(_EXTENSION_32, len(content), CARRIED_CODE) + content


def unpack(content: memoryview) -> tuple[Context, memoryview]:
    """Return the context and the encoded payload in the content of an extension.

    Raises:
        WireError: the content is cut short, or a text is not ASCII.
    """
    try:
        parent, state = _LENGTHS.unpack_from(content)
        first, last = _LENGTHS.size + parent, _LENGTHS.size + parent + state
        texts = (
            str(content[_LENGTHS.size : first], "ascii"),
            str(content[first:last], "ascii"),
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"payload holds an illegal trace context: {error}") from error
    return Context(*texts), content[last:]
