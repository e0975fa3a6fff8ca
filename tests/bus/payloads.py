"""Payloads to draw in tests, and their shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from bus.model.payload import Payload

__all__ = ["BORDERS", "INTEGERS", "PAYLOADS", "kinds", "nested"]

# At these and their neighbours the encoding changes, and at some that look like them.
BORDERS = [
    border + offset
    for power in (0, 5, 7, 8, 15, 16, 31, 32, 63)
    for border in (2**power, -(2**power))
    for offset in (-1, 0, 1)
    if border + offset >= -(2**63)
]
INTEGERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from(BORDERS)
_SCALARS = (
    st.none()
    | st.booleans()
    | INTEGERS
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
PAYLOADS = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=20)
    ),
)


def nested(depth: int, innermost: object = 1) -> object:
    """Return lists and maps nested in turn, ``depth`` levels deep."""
    value = innermost
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def kinds(payload: Payload) -> Any:
    """Return the types of all parts of a payload, in its own shape."""
    if type(payload) is dict:
        return {(type(key), key): kinds(item) for key, item in payload.items()}
    if isinstance(payload, tuple):
        return [kinds(item) for item in payload]
    return type(payload)
