"""`to_json`: a value as one line of JSON that a terminal can show."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from bus.model.arrays import is_array

__all__ = ["to_json"]


def to_json(value: Any) -> str:
    """Return a value as one line of JSON.

    Bytes are written as ``{"base64": ...}``, and arrays as lists in one another.
    Characters are escaped if stdout cannot encode them, or if they are unprintable and
    might control a terminal.
    """
    text = json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)
    if text.isascii():
        return text
    return "".join(c if _is_carried(c) else json.dumps(c)[1:-1] for c in text)


def _is_carried(character: str) -> bool:
    if character.isascii():
        return True
    try:
        character.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return character.isprintable()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, memoryview):
        return _plain(value.tolist() if is_array(value) else bytes(value))
    if isinstance(value, bytes):
        from base64 import b64encode  # noqa: PLC0415 # bytes are rare

        return {"base64": b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value
