"""`error_text_of` and `fitting`: error texts that a message can carry.

Such a text is made by the user's code, which did not intend to send it. A payload that
cannot be sent is refused, but an error text is adapted. So the task that waits for an
answer gets the error, with the same text at every distance (BUS-MSG-13).
"""

from __future__ import annotations

from typing import Final

__all__ = ["ERROR_TEXT_BYTES_MAX", "error_text_of", "fitting"]

ERROR_TEXT_BYTES_MAX: Final = 16 * 2**10  # of its UTF-8
_HEAD_BYTES_MAX: Final = 3  # bytes that MessagePack puts before a text of that length
_CUT: Final = "..."


def error_text_of(error: BaseException) -> str:
    """Return the type of an exception and its text, even if `str` of it raises."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as another:  # noqa: BLE001 # contained, like the first exception
        return f"{name}: its text cannot be had: {type(another).__name__}"


def fitting(text: str, message_bytes_max: int) -> str:
    """Return the part of a text that can be sent: the whole text if possible.

    Lone surrogates become escapes, such as ``\\udcff``. A text longer than
    `ERROR_TEXT_BYTES_MAX`, or than a message may be, is cut and ends in "...". A
    subclass of `str` is reduced to the value of its base. The function is idempotent.
    """
    most = max(0, min(ERROR_TEXT_BYTES_MAX, message_bytes_max - _HEAD_BYTES_MAX))
    # One character more than can fit, since each takes at least one byte.
    data = str.__str__(text)[: most + 1].encode(errors="backslashreplace")
    if len(data) <= most:
        return data.decode()
    kept = data[: max(0, most - len(_CUT))]
    return kept.decode(errors="ignore") + _CUT[:most]
