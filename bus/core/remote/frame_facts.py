"""`facts` and `messages`: the contents of a frame, as plain and readable values.

Frames refer to tasks by relay numbers, and carry bodies as bytes. Here tasks have
names, and the bytes of bodies are counted. Payloads are in neither.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bus.core.peer.relay import AUDIENCE
from bus.core.wire import (
    FAILED,
    WANTS_REPLY,
    Ack,
    Characteristics,
    Dismiss,
    Dismissed,
    Gap,
    Identity,
    RequestId,
    Unrelay,
)
from bus.registration import RegistrationId

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.wire import Batch, ControlFrame

__all__ = ["ALL", "facts", "messages"]

ALL: Final = "all subscribers"  # the receivers of a notification

_RUNS_MAX: Final = 16  # listed per frame; any others are only counted
_LISTED_MAX: Final = 8  # listed per field

# Fields that matter only to the two ends of a stream.
_DULL: Final = {"nonce", "window", "message_bytes_max", "versions", "overflow", "token"}
_FLAGS: Final = WANTS_REPLY | FAILED

Namer: TypeAlias = "Callable[[int], str]"


def facts(
    frame: ControlFrame, here: str, sender: Namer, receiver: Namer
) -> dict[str, Any]:
    """Return the fields of a control frame that carry information, by name.

    here: the machine whose name is omitted.
    sender, receiver: as for `messages`.
    """
    found: dict[str, Any] = {}
    for name in frame.__struct_fields__:
        value = getattr(frame, name)
        if name in _DULL or value is None or value is False or value in ((), ""):
            continue
        match frame, name:
            case Ack(), "extracted":
                taken = islice(value, _LISTED_MAX)
                found["taken"] = {
                    ALL if relay == AUDIENCE else sender(relay): number
                    for relay, number in taken
                }
            case ((Unrelay() | Dismissed() | Gap()), "relay"):
                found["task"] = sender(value)
            case Dismiss(), "relay":
                found["task"] = receiver(value)
            case _:
                found[name] = _plain(value, here)
    return found


def _plain(value: Any, here: str) -> Any:
    plain = value
    match value:
        case RegistrationId():
            plain = f"{_who(value.machine, value.process, here)}#{value.number}"
        case RequestId():
            plain = f"{_who(value.machine, value.process, here)}?{value.number}"
        case Characteristics():
            plain = f"{value.name} ({value.visibility.value}, {_plain(value.id, here)})"
        case Identity():
            who = _who(value.machine, value.process, here)
            plain = f"{who} ({value.role.value}, pid {value.process_id})"
        case Enum():
            plain = value.value
        case tuple():
            plain = [_plain(each, here) for each in value[:_LISTED_MAX]]
    return plain


def _who(machine: str, process: str, here: str) -> str:
    return process if machine == here else f"{machine}/{process}"


def messages(
    batch: Batch, sender: Namer, receiver: Namer, hidden: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Return the runs of a frame; runs that differ only in their bodies are merged.

    sender, receiver: return the name of a task of the process that has sent the frame,
      and of the process that receives it.
    hidden: True for the name of a task whose messages are left out.

    Returns None if all messages are left out.
    """
    listed: list[dict[str, Any]] = []
    last: object = None
    seen = 0
    for run in islice(batch.runs, _RUNS_MAX):
        count, size = len(run.bodies), sum(map(len, run.bodies))
        seen += count
        alike = (run.source, run.to, run.kind, run.hop, run.flags & _FLAGS)
        if alike == last:
            listed[-1]["count"] += count
            listed[-1]["bytes"] += size
            continue
        source = sender(run.source)
        to = ALL if run.to == AUDIENCE else receiver(run.to)
        if hidden(source) or hidden(to):
            continue
        last = alike
        listed.append(
            {
                "from": source,
                "to": to,
                "kind": run.kind.name.lower(),
                "count": count,
                "bytes": size,
                "hop": run.hop,
                "wants_reply": bool(run.flags & WANTS_REPLY),
                "failed": bool(run.flags & FAILED),
            }
        )
    if seen < batch.count:
        listed.append({"more": batch.count - seen})
    return None if seen and not listed else listed
