"""`words`: a frame in a few words, for the story of a run."""

from __future__ import annotations

from enum import Enum
from typing import Any

from bus.kernel.wire import RAW, Batch, Characteristics, Frame, Identity, RequestId, Run
from bus.model.payload import decode
from bus.model.registration import RegistrationId

__all__ = ["words"]

# Fields of no interest in a story.
_DULL = {"nonce", "window", "message_bytes_max", "versions", "version", "overflow"}


def words(frame: Frame) -> str:
    """Summarize a frame."""
    if isinstance(frame, Batch):
        messages = ", ".join(
            f"{run.kind.name.lower()} {_said(run, body)} from {run.source} "
            f"to {run.to or 'all'}"
            for run in frame.runs
            for body in run.bodies
        )
        return f"MSG {frame.first}, floor {frame.floor}: {messages}"
    facts = (
        f"{name}={_fact(value)}"
        for name in frame.__struct_fields__
        if name not in _DULL and (value := getattr(frame, name)) not in (None, (), "")
    )
    return f"{frame.type.name} {' '.join(facts)}"


def _said(run: Run, body: bytes | memoryview) -> object:
    return int.from_bytes(body) if run.flags & RAW else decode(body)


def _fact(value: Any) -> str:
    match value:
        case RegistrationId():
            return f"{value.machine}/{value.process}#{value.number % 10**9}"
        case RequestId():
            return f"{value.machine}/{value.process}?{value.number % 10**9}"
        case Characteristics():
            seen = value.visibility.value
            return f"{value.name}({seen} {_fact(value.id)}, relay {value.relay})"
        case Identity():
            return f"{value.machine}/{value.process}({value.role.value})"
        case Enum():
            return str(value.value)
        case _:
            return str(value)
