"""Names that the project gave up, and where they still stand.

Each concept has one name, that of the field; the left column is the name that went.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GONE", "gone_names"]

# An identifier that went, and the name that took its place. Modules and attributes are
# found by the word in it: `tidings` stands for `Tidings`, `_tidings` and `tidings.py`.
GONE: Final[dict[str, str]] = {
    "neighbourhood": "remote manager",
    "neighbours": "topology",
    "tidings": "control frames",
    "correspondence": "outbound messages",
    "intake": "inbound messages",
    "arriving": "inbound messages",
    "finder": "resolver",
    "listening": "remote subscriptions",
    "disuse": "idle relays",
    "parting": "link table",
    "greeting": "handshake",
    "relay_books": "relay counters",
    "books": "counters, accounting",
    "shortcut": "fast path, its pure half",
    "bypass": "fast path, its driver half",
    "burst": "send batch",
    "salvo": "sealed batch",
    "parcel": "message run",
    "stand_in": "relay account",
    "relay_host": "relay outbox",
    "new_links": "link set-up",
    "arrivals": "delivery",
    "extractions": "acknowledgement tracker",
    "complaints": "peer log",
    "joining": "join state",
    "scripts": "implicit tasks",
    "vigil": "adaptive spin",
    "glance": "spin",
    "bell": "shared parker",
    "lane": "lock-free buffer",
    "lane_connection": "lock-free connection",
    "reception": "receive attempt",
    "departure": "outgoing connect",
    "witness": "trace sink",
    "struck": "interrupted",
    "torn": "mid-I/O",
    "deaf": "write failed",
    "forsake": "abandon after fork",
    "rouse": "wake",
    "stir": "mark ready",
    "nudge": "request flush",
    "slip_in": "try deliver now",
}
_WORDS: Final = re.compile(
    r"(?<![a-z])(" + "|".join(sorted(GONE, key=len, reverse=True)) + r")(?![a-z])"
)
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def gone_names(path: Path) -> Counter[str]:
    """Count the names of `GONE` in the identifiers of a Python file, and in its own."""
    names = [path.stem]
    text = path.read_text(encoding="utf-8")
    names += [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME
    ]
    return Counter(
        word
        for name in names
        for word in _WORDS.findall(_CAPITAL.sub("_", name).lower())
    )
