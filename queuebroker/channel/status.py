"""The specification's tables: the status of an end, and the verdict on an operation.

Every decision about an end is looked up here (the sequential model, QB-DISC); no status
is stored anywhere. Only two rules are outside: strictness (QB-PY-8), and a Channel's
empty ranges, which never wait (QB-CHAN-1, 2).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DONE", "RECEIVE", "SEND", "STATUS", "Status", "Verdict"]


class Status(enum.Enum):
    """The status of an end; moves down this list only, perhaps skipping (QB-DISC-1)."""

    CONNECTED = "connected"
    HALF_DISCONNECTED = "half-disconnected"
    DISCONNECTED = "disconnected"


class Verdict(enum.Enum):
    """The outcome of a send or a receive for the present state of its end."""

    DO = enum.auto()
    WAIT = enum.auto()
    DROP = enum.auto()
    REFUSE = enum.auto()


# By identity, as members are compared: the hash of Enum is Python code, and every
# operation reads the tables.
Status.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
Verdict.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above

# The verdicts on which a send returns normally; on any other it raises.
DONE: Final = frozenset({Verdict.DO, Verdict.DROP})

_C, _H, _D = Status.CONNECTED, Status.HALF_DISCONNECTED, Status.DISCONNECTED
_DO, _WAIT, _DROP, _REFUSE = Verdict.DO, Verdict.WAIT, Verdict.DROP, Verdict.REFUSE

# (this end closed, its peer closed, messages unread here or in transit) -> status
STATUS: Final[Mapping[tuple[bool, bool, bool], Status]] = {
    (False, False, False): _C,
    (False, False, True): _C,
    (False, True, True): _H,
    (False, True, False): _D,
    (True, False, False): _D,
    (True, False, True): _D,
    (True, True, False): _D,
    (True, True, True): _D,
}

# (status, room in the peer's buffer, this call has waited) -> verdict on a send
SEND: Final[Mapping[tuple[Status, bool, bool], Verdict]] = {
    (_C, True, False): _DO,
    (_C, True, True): _DO,
    (_C, False, False): _WAIT,
    (_C, False, True): _WAIT,
    (_H, True, False): _DROP,
    (_H, False, False): _DROP,
    (_H, True, True): _REFUSE,
    (_H, False, True): _REFUSE,
    (_D, True, False): _REFUSE,
    (_D, False, False): _REFUSE,
    (_D, True, True): _REFUSE,
    (_D, False, True): _REFUSE,
}

# (status, messages unread here) -> verdict on a receive; if half-disconnected with no
# message here, messages sent before the peer disconnected are still in transit
RECEIVE: Final[Mapping[tuple[Status, bool], Verdict]] = {
    (_C, True): _DO,
    (_C, False): _WAIT,
    (_H, True): _DO,
    (_H, False): _WAIT,
    (_D, True): _REFUSE,
    (_D, False): _REFUSE,
}
