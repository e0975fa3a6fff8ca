"""`error_text_of` and `fitting`: what went wrong, as a text that a message can carry.

Such a text comes from the user's code, and nobody there has thought of sending it. Nor
is it refused, as a payload would be: it is made fit, so that an error is told to who
waits for an answer, at every distance the same (BUS-MSG-13).
"""

from __future__ import annotations

from typing import Final

__all__ = ["ERROR_TEXT_BYTES_MAX", "error_text_of", "fitting"]

ERROR_TEXT_BYTES_MAX: Final = 16 * 2**10  # of its UTF-8
_HEAD_BYTES_MAX: Final = 3  # that MessagePack puts in front of so much text
_CUT: Final = "..."


def error_text_of(error: Exception) -> str:
    """Return the type of an exception and its text, also if that cannot be had."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as another:  # noqa: BLE001 # contained, as what was raised first
        return f"{name}: its text cannot be had: {type(another).__name__}"


def fitting(text: str, message_bytes_max: int) -> str:
    """Return what is sent of a text: all of it if it can be.

    Lone surrogates become escapes, such as ``\\udcff``. Of what is longer than
    `ERROR_TEXT_BYTES_MAX`, or than a message may be, the first part is left, and "...".
    Of a subclass of `str` it is the value that its base has. To fit it again changes
    nothing.
    """
    most = max(0, min(ERROR_TEXT_BYTES_MAX, message_bytes_max - _HEAD_BYTES_MAX))
    # No more than can be kept, and one: a character takes a byte at least.
    data = str.__str__(text)[: most + 1].encode(errors="backslashreplace")
    if len(data) <= most:
        return data.decode()
    kept = data[: max(0, most - len(_CUT))]
    return kept.decode(errors="ignore") + _CUT[:most]
