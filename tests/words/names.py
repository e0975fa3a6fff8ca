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

__all__ = ["GONE", "ONLY_IN", "gone_names"]

# An identifier that went, and the name that took its place. Modules and attributes are
# found by the word in it: `tidings` stands for `Tidings`, `_tidings` and `tidings.py`.
GONE: Final[dict[str, str]] = {
    "neighbourhood": "remote manager",
    "neighbours": "topology",
    "tidings": "control frames",
    "correspondence": "outbound messages",
    "intake": "inbound messages",
    "arriving": "inbound commands",
    "finder": "resolver",
    "listening": "remote subscriptions",
    "user_table": "user routing table",
    "disuse": "idle relays",
    "parting": "idle links",
    "greeting": "handshake",
    "relay_books": "relay counters",
    "books": "counters",
    "tap": "frame monitor",
    "tapping": "monitor leases",
    "shortcut": "fast path",
    "bypass": "fast path driver",
    "burst": "send batch",
    "salvo": "sealed batch",
    "parcel": "outbound run",
    "stand_in": "relay account",
    "relay_host": "relay outbox",
    "lines": "link pool",
    "new_links": "link set-up",
    "arrivals": "inbound delivery",
    "extractions": "acknowledgement tracker",
    "complaints": "peer log",
    "joining": "join state",
    "scripts": "implicit tasks",
    "place": "host",
    "box": "mailbox",
    "vigil": "adaptive spin",
    "glance": "spin",
    "bell": "shared parker",
    "lane": "lock-free buffer",
    "lane_connection": "lock-free connection",
    "lead": "read lease",
    "far_tasks": "remote tasks",
    "slipping": "fast receiver",
    "hearsay": "provisional",
    "turn": "read owner",
    "reception": "receive attempt",
    "departure": "outgoing connect",
    "arrival": "incoming connect",
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
# Words that are the right ones elsewhere, and the folders in which they went.
_CORE: Final = ("bus/kernel", "bus/process", "bus/api")
_SOCKETS: Final = ("queuebroker/sockets",)
ONLY_IN: Final[dict[str, tuple[str, ...]]] = {
    "listening": ("bus/kernel",),
    "greeting": ("bus/kernel",),
    "tap": _CORE,
    "stand_in": _CORE,
    "lines": ("bus/process/link_",),
    "arrivals": ("bus/process",),
    "complaints": ("bus/process",),
    "joining": ("bus/process",),
    "scripts": ("bus/api",),
    "place": ("bus/process", "bus/kernel/tasks/routing_table.py"),
    "box": _CORE,
    "bell": ("queuebroker",),
    "lead": ("queuebroker/sockets", "bus/process"),
    "turn": ("queuebroker/sockets/link",),
    "departure": _SOCKETS,
    "arrival": _SOCKETS,
    "witness": _CORE,
    "struck": ("queuebroker", "bus/kernel", "bus/process", "bus/process", "bus/api"),
    "torn": (*_SOCKETS, "bus/kernel", "bus/process"),
    "deaf": _SOCKETS,
}
_WORDS: Final = re.compile(
    r"(?<![a-z])(" + "|".join(sorted(GONE, key=len, reverse=True)) + r")(?![a-z])"
)
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def gone_names(path: Path, root: Path) -> Counter[str]:
    """Count the names of `GONE` in the identifiers of a Python file, and in its own.

    root: the top folder of the project, from which the folders of `ONLY_IN` count.
    """
    names = [path.stem]
    text = path.read_text(encoding="utf-8")
    names += [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME
    ]
    below = path.relative_to(root).as_posix()
    return Counter(
        word
        for name in names
        for word in _WORDS.findall(_CAPITAL.sub("_", name).lower())
        if below.startswith(ONLY_IN.get(word, ""))
    )
