"""The values that a message can carry, copied at the sender.

`freeze` is the one gate (BUS-MSG-16): the sender cannot change the payload that it
returns, and `decode` returns an equal one, of the same types, in any other process. So
no code behind the gate checks types again. This module depends on no message and no
bus; limits and encoders are arguments.

A receiver may change the dicts of its payload, so each receiver has its own. A single
receiver gets the result of `freeze` or `decode`; each of several gets an `own_copy`.

`check_depth` limits how deep the containers of an encoded payload lie in one another:
the decoder of msgspec recurses in C, once for each level. So the levels are first
counted in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from sys import getrecursionlimit
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from bus.errors import MessageTooLargeError, PayloadError, WireError
from bus.model.arrays import (
    EXTENSION_CODE,
    MADE,
    SupportsBuffer,
    decode_array,
    encode_array,
    freeze_array,
    is_array,
    size_of_array,
)
from bus.model.carried import CARRIED_CODE, CONTEXTS, Carried, pack, size, unpack
from bus.model.error_text import error_text_of
from bus.model.loan import Loan

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "DEPTH_MAX",
    "ENCODER",
    "TOO_DEEP",
    "TYPES_THAT_NEED_NO_ENCODER",
    "Encoders",
    "Payload",
    "check_depth",
    "decode",
    "encode",
    "freeze",
    "freeze_within",
    "own_copy",
    "plain",
    "size_of",
    "size_with_length",
]

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
    Carried: lambda carried: size(carried.context, size_of(carried.payload)),
}


# The types that may be sent. Of the containers, a receiver gets only tuples and dicts;
# of the objects with a buffer, only bytes and views.
Payload: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | memoryview
    | SupportsBuffer
    | Sequence["Payload"]
    | Mapping[str, "Payload"]
) | None
# How the user's own types become payload; matched by exact type, not by subtype.
Encoders: TypeAlias = Mapping[type, Callable[[Any], Any]]

# An encoder for one of these would be called for some values and not for others.
TYPES_THAT_NEED_NO_ENCODER: Final[frozenset[type]] = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, memoryview}
    | {list, tuple, dict, MappingProxyType}
)
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

_NO_ENCODERS: Final[Encoders] = MappingProxyType({})
# An encoder's result may need an encoder again; this bound detects an endless chain.
_ENCODERS_IN_A_ROW_MAX: Final = 32

# Types whose every value is sent unchanged.
_ANY_VALUE: Final = frozenset({type(None), bool, float, bytes})

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
# For an iterable of types: methods of sets, for each message.
_are_plain: Final = _PLAIN.issuperset
_are_numbers_or_text: Final = (_PLAIN - {bytes}).issuperset
_are_text: Final = frozenset({str}).issuperset

# Types that hold no other payload but may be subclassed or mutable.
_SCALAR: Final = (str, int, float, bytes, bytearray, memoryview)

# The position of a value, from the inside out: (position of its container, index or
# key). It is formatted only for an error.
_Path: TypeAlias = tuple[Any, ...]
_ROOT: Final[_Path] = ()


def freeze(payload: Any, encoders: Encoders = _NO_ENCODERS) -> Payload:
    """Return the payload for the receiver; later changes by the sender have no effect.

    Bytes, numbers and text are returned unchanged; lists and tuples as tuples, string
    keyed maps as new dicts, `bytearray` and views of bytes as bytes, other objects with
    a buffer as views of arrays. A tuple is returned unchanged if it holds only bytes,
    numbers, text and such tuples.

    encoders: for the user's own types, by exact type, even if it is a subclass of a
      type that can be sent; their results are frozen in turn.

    Raises:
        PayloadError: a message cannot carry one of its values; or it is more than 32
          deep, as a list that contains itself is; or an encoder raised.
    """
    if _stands(payload):
        return payload  # type: ignore[no-any-return]  # one of the plain types
    return _frozen(payload, _ROOT, 0, encoders)


def freeze_within(
    payload: Any, limit: int, encoders: Encoders = _NO_ENCODERS
) -> tuple[Payload, int, bytes | None]:
    """Freeze ``payload``; return it, and its encoded size of at most ``limit`` bytes.

    The third item is its encoding, if the size was found by that; None otherwise. The
    caller must not keep it longer than until the message is posted.

    A `Loan` that is the payload becomes its bytes: in shared memory, a view of them.

    Raises:
        PayloadError: as `freeze`.
        MessageTooLargeError: it takes more than ``limit``.
    """
    kind = type(payload)
    if kind is dict:  # first: the most common payload of a call
        copy = dict(payload)  # in one step: another thread may change it
        # Numbers and text stand as they are, and have no encoder. Bytes may be long,
        # and would be copied to find out the size.
        if _are_numbers_or_text(map(type, copy.values())) and _are_text(
            map(type, copy)
        ):
            try:
                encoded = ENCODER.encode(copy)
                size = len(encoded)
                if size <= limit:
                    return copy, size, encoded
            except (UnicodeEncodeError, OverflowError):
                pass  # `freeze` says which value cannot be sent
    elif kind is bytes:
        size = size_with_length(len(payload))
        if size <= limit:
            return payload, size, None
    elif kind is Loan:
        # Checked first: a loan that is refused here can still be sent elsewhere.
        size = size_with_length(payload.nbytes)
        if size > limit:
            raise MessageTooLargeError(size, limit)
        return payload._send(), size, None
    elif kind is Carried:
        return _carried_within(payload, limit, encoders)
    # It is not so simple, or too long.
    frozen = freeze(payload, encoders)
    size = size_of(frozen)
    if size > limit:
        raise MessageTooLargeError(size, limit)
    return frozen, size, None


def _carried_within(
    carried: Carried, limit: int, encoders: Encoders
) -> tuple[Payload, int, bytes | None]:
    """As `freeze_within`; the context stays behind if it would cost more than bytes.

    A view would be copied into the extension, and the message would exceed its limit
    only by the context.
    """
    found = frozen, body, _ = freeze_within(carried.payload, limit, encoders)
    whole = size(carried.context, body)
    if type(frozen) is memoryview or whole > min(limit, _CARRIED_BYTES_MAX):
        return found
    # `encode` looks for no extension before.
    MADE.any = True
    return Carried(carried.context, frozen), whole, None  # type: ignore[return-value]


def plain(frozen: Any) -> Any:
    """Return a frozen payload without its context, if it has one."""
    return frozen.payload if type(frozen) is Carried else frozen


def _stands(value: Any) -> bool:
    """Return True if a value is sent unchanged, as far as a cheap test can tell."""
    kind = type(value)
    return (
        kind in _ANY_VALUE
        or (kind is str and value.isascii())
        or (kind is int and INT_MIN <= value <= INT_MAX)
    )


def _frozen(value: Any, path: _Path, depth: int, encoders: Encoders) -> Payload:
    """Freeze one value that is nested in ``depth`` containers."""
    if encoders:
        value = _encoded(value, path, encoders)
    if _stands(value):
        return value  # type: ignore[no-any-return]  # one of the plain types
    if isinstance(value, _SCALAR):
        return _scalar(value, path)
    freeze_inside: Callable[..., Payload]
    if isinstance(value, (list, tuple)):
        freeze_inside = _frozen_items
    elif isinstance(value, (dict, Mapping)):  # the cheap test first
        freeze_inside = _frozen_map
    else:
        return _exported(value, path)
    if depth == DEPTH_MAX:
        raise PayloadError(_words(path), f"it is more than {DEPTH_MAX} deep")
    return freeze_inside(value, path, depth + 1, encoders)


def _encoded(value: Any, path: _Path, encoders: Encoders) -> Any:
    """Apply encoders until the result is of a type without one."""
    for _ in range(_ENCODERS_IN_A_ROW_MAX):
        encoder = encoders.get(type(value))
        if encoder is None:
            return value
        try:
            value = encoder(value)
        except Exception as error:
            kind = type(value).__qualname__
            fact = f"the encoder of {kind} raised {error_text_of(error)}"
            raise PayloadError(_words(path), fact) from error
    raise PayloadError(
        _words(path), f"its encoders never end: at last {type(value).__qualname__}"
    )


def _scalar(value: Any, path: _Path) -> Payload:
    """Freeze a value that holds no other payload and cannot be sent unchanged.

    A subclass is reduced to the value of its base: a receiver cannot know the subclass.
    """
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        return float.__float__(value)
    return _snapshot(value, path)


def _text(value: str, path: _Path) -> str:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fact = (
            f"str holds a lone surrogate: at {error.start}; send it as bytes, "
            "value.encode(errors='surrogatepass')"
        )
        raise PayloadError(_words(path), fact) from None
    return text


def _integer(value: int, path: _Path) -> int:
    number = int.__index__(value)
    if INT_MIN <= number <= INT_MAX:
        return number
    # Not the number: Python refuses to write one of more than 4,300 digits.
    fact = (
        f"int is outside -2**63 to 2**64 - 1: it has {number.bit_length()} bits; "
        "send it as a str, or as bytes"
    )
    raise PayloadError(_words(path), fact)


def _snapshot(value: bytes | bytearray | memoryview, path: _Path) -> Payload:
    try:
        with memoryview(value) as view:
            if is_array(view):
                return _array(view, path)
            if view.c_contiguous:
                return view.tobytes()
    except ValueError as error:  # a view that was released
        raise PayloadError(_words(path), f"cannot be read: {error}") from error
    raise PayloadError(_words(path), "memoryview is not contiguous; send bytes(view)")


def _exported(value: Any, path: _Path) -> memoryview:
    """Freeze a value of an unknown type, which must export its memory."""
    if type(value) is Loan:
        fact = f"{value!r} can only be a whole payload: use task.notify(loan) or such"
        raise PayloadError(_words(path), fact)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    fact = f"its type cannot be sent: {kind.removeprefix('builtins.')}"
    try:
        view = memoryview(value)
    except TypeError:
        remedy = "convert it, or give an encoder for its type: BusConfig(encoders=...)"
        raise PayloadError(_words(path), f"{fact}; {remedy}") from None
    except (ValueError, BufferError) as error:
        remedy = "send numbers, value.view('i8'), or its bytes, value.tobytes()"
        fact = f"cannot be read: {error_text_of(error)}; {remedy}"
        raise PayloadError(_words(path), fact) from error
    with view:
        if view.ndim == 0:
            remedy = "send the Python number: value.item()"
            raise PayloadError(_words(path), f"{fact}; {remedy}")
        return _array(view, path)


def _array(view: memoryview, path: _Path) -> memoryview:
    try:
        return freeze_array(view)
    except ValueError as error:
        raise PayloadError(_words(path), str(error)) from None


def _frozen_items(
    value: list[Any] | tuple[Any, ...], path: _Path, depth: int, encoders: Encoders
) -> tuple[Payload, ...]:
    # Copy first, in one step: another thread may append meanwhile, and the checked
    # items must be the ones that are sent.
    items = tuple(value)
    if all(map(_stands, items)):
        return items
    frozen = tuple(
        item if _stands(item) else _frozen(item, (path, index), depth, encoders)
        for index, item in enumerate(items)
    )
    return items if all(map(is_, frozen, items)) else frozen


def _frozen_map(
    value: Mapping[Any, Any], path: _Path, depth: int, encoders: Encoders
) -> Mapping[str, Payload]:
    items = dict(value)  # copied first, as above
    frozen: dict[str, Payload] = {}
    for key, item in items.items():
        if type(key) is not str or not key.isascii():
            if not isinstance(key, str):
                kind = type(key).__qualname__
                fact = f"keys must be str, got {kind}; convert it, or send pairs"
                raise PayloadError(_words(path), fact)
            key = _text(key, (path, key))  # noqa: PLW2901  # a plain str from here on
        frozen[key] = (
            item if _stands(item) else _frozen(item, (path, key), depth, encoders)
        )
    if len(frozen) < len(items):
        raise PayloadError(_words(path), "two keys are the same text")
    return frozen


def own_copy(frozen: Payload) -> Payload:
    """Return a frozen payload for one more receiver, with its own dicts and views.

    A payload with neither is returned as it is, since it cannot change. The views are
    of the same memory, but each receiver may release its own.
    """
    kind: Any = type(frozen)
    if kind is dict:
        items: dict[str, Payload] = frozen  # type: ignore[assignment]
        return {
            key: item if type(item) in _PLAIN else own_copy(item)
            for key, item in items.items()
        }
    if kind is tuple and not _are_plain(map(type, frozen)):  # type: ignore[arg-type]
        copies = tuple(map(own_copy, frozen))  # type: ignore[arg-type]
        return frozen if all(map(is_, copies, frozen)) else copies  # type: ignore[arg-type]
    if kind is memoryview:
        return memoryview(frozen)  # type: ignore[arg-type]
    if kind is Carried:
        carried: Any = frozen
        return Carried(carried.context, own_copy(carried.payload))  # type: ignore[return-value]
    return frozen


def _words(path: _Path) -> str:
    keys = []
    while path:
        path, key = path
        keys.append(f"[{key!r}]")
    return "payload" + "".join(reversed(keys))


# The wire: MessagePack.


class _Envelope(msgspec.Struct, frozen=True):
    content: memoryview


def _content(code: int, content: memoryview) -> memoryview | _Envelope:
    """Return the content of an array, or of a `Carried`, which `_sealed` decodes.

    It is msgspec's ``ext_hook``.

    Raises:
        WireError: the extension is another one.
    """
    if code == CARRIED_CODE:
        return _Envelope(content)
    if code != EXTENSION_CODE:
        raise WireError(_EXTENSION)
    return content


ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_content)

# The decoder recurses in C, up to the interpreter's recursion limit: about 25,000
# levels fill a stack of 8 MiB (x86-64). If the limit is above this value, the depth of
# the data is checked before the decoder runs.
_RECURSION_SAFE: Final = 5_000


def encode(frozen: Payload) -> bytes:
    """Return the MessagePack encoding of a frozen payload."""
    if MADE.any and type(frozen) not in _PLAIN:
        if type(frozen) is memoryview and is_array(frozen):
            return encode_array(frozen)
        frozen = _encodable(frozen)
        if isinstance(frozen, Carried):
            return pack(frozen.context, encode(frozen.payload))
    return ENCODER.encode(frozen)


def _encodable(frozen: Any) -> Any:
    """Replace the arrays in a frozen payload by their encodings.

    The encoder takes a view of any shape for bytes, and calls no hook for it.
    """
    kind = type(frozen)
    if kind is tuple:
        if _are_plain(map(type, frozen)):  # most often: in C, and not copied
            return frozen
        return tuple(map(_encodable, frozen))
    if kind is dict:
        if _are_plain(map(type, frozen.values())):
            return frozen
        return {key: _encodable(item) for key, item in frozen.items()}
    if kind is memoryview and is_array(frozen):
        return msgspec.Raw(encode_array(frozen))
    return frozen


def decode(data: bytes | memoryview) -> Payload:
    """Return the payload that a peer has encoded, frozen.

    Raises:
        WireError: the data are not the encoding of exactly one payload.
    """
    if getrecursionlimit() > _RECURSION_SAFE:
        check_depth(data)
    try:
        value = _DECODER.decode(data)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"payload cannot be decoded: {error}") from error
    kind = type(value)
    if (
        # The most common payload of a lone message: checked without a call.
        kind is dict
        and _are_plain(map(type, value.values()))
        and _are_text(map(type, value))
    ) or kind in _PLAIN:
        return value  # type: ignore[no-any-return]  # frozen already
    return _sealed(value, 0)


def _sealed(value: Any, depth: int) -> Payload:
    """Turn decoded lists into tuples; reject a value that `freeze` never returns."""
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]  # one of the plain types
    if kind is memoryview:  # of `_content`
        return decode_array(value, whole=depth == 0)
    if kind is _Envelope and depth == 0:
        return _opened(value)
    if kind is not list and kind is not dict:
        raise WireError(_EXTENSION)
    if depth == DEPTH_MAX:
        raise WireError(TOO_DEEP)
    if kind is list:
        if _are_plain(map(type, value)):
            return tuple(value)
        return tuple([_sealed(item, depth + 1) for item in value])
    for key, item in value.items():
        if type(key) is not str:
            raise WireError(f"payload holds a key of type {type(key).__name__}")
        if type(item) not in _PLAIN:
            value[key] = _sealed(item, depth + 1)  # adds no key, so iteration goes on
    return value  # type: ignore[no-any-return]  # a dict of payloads


def _opened(envelope: _Envelope) -> Payload:
    """Return the payload of a body with a context; with it if this process keeps it."""
    context, body = unpack(envelope.content)
    payload = decode(bytes(body))
    head = body[0]  # there is one, since it was decoded
    at = _EXTENSIONS.get(head, 0 if 0xD4 <= head <= 0xD8 else None)
    if at is not None and body[at + 1] == CARRIED_CODE:
        raise WireError("payload holds a trace context within another one")
    if CONTEXTS.kept:
        MADE.any = True  # the message may be sent on
        return Carried(context, payload)  # type: ignore[return-value]
    return payload


# A longer body would be copied to be put behind the context.
_CARRIED_BYTES_MAX: Final = 128 * 2**10
_EXTENSION: Final = "payload holds an extension type"
