"""The links of a session, and the runs of messages that it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.tasks.runs import OutboundRun
from bus.kernel.timers import Alarm
from bus.kernel.wire import RAW, OpenStream
from bus.model.message import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.kernel.peer.session import Session

__all__ = ["link_up", "new_alarm", "opening", "outbound_run"]


def new_alarm() -> Alarm:
    """Return an alarm of which no driver takes note."""
    return Alarm(lambda _: None)


def outbound_run(bodies: Sequence[bytes], **fields: Any) -> OutboundRun:
    """Return a run of commands with these bodies, except for the given fields."""
    usual: dict[str, Any] = {
        "kind": Kind.COMMAND,
        "source": "d",
        "relay": 1,
        "id": 0,
        "flags": RAW,
        "turn": 0,
        "deadline": None,
        "name": "f",
    }
    size = sum(map(len, bodies))
    return OutboundRun(bodies=bodies, size=size, **(usual | fields))


def opening(**fields: int) -> OpenStream:
    """Return the peer's OPEN_STREAM, except for the given fields."""
    usual = {"epoch": 7, "nonce": 1, "incarnation": 1, "first": 1, "window": 8}
    return OpenStream(**(usual | {"known": 0, "last": 0, "controls": 0} | fields))


def link_up(session: Session, link: int = 1, **fields: int) -> OpenStream:
    """Attach a link; the peer states how much has arrived there."""
    frame = session.attach(link)
    session.open(opening(**fields), Acknowledgement(1))
    return frame
