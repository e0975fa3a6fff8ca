"""`next_frame`: the frame of a message that a task thread sends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.core.wire import FOLLOWS_MIN, Batch, Run, encode_single

if TYPE_CHECKING:
    from bus.core.peer.outbound_run import OutboundRun
    from bus.core.peer.session import Session

__all__ = ["next_frame"]


def next_frame(
    session: Session,
    relay: int,
    outbound_run: OutboundRun,
    left: int,
    acknowledged: int,
    extracted: int,
) -> bytes | Batch:
    """Return the frame of the next message of a session.

    A long message is returned as a batch: its body is still to be put into memory.

    Args:
        relay: the number of the relay that the message is for.
        outbound_run: the message, which originates in this process.
        left, acknowledged, extracted: as in `Run` and `Batch`.
    """
    outgoing, [body] = session.outgoing, outbound_run.bodies
    if len(body) < FOLLOWS_MIN:
        return encode_single(
            session.epoch,
            session.incarnation,
            outgoing.floor,
            outgoing.next,
            relay,
            outbound_run.relay,
            outbound_run.kind,
            outbound_run.flags,
            outbound_run.id,
            left,
            body,
            acknowledged,
            extracted,
        )
    run = Run(
        relay,
        outbound_run.relay,
        outbound_run.kind,
        outbound_run.flags,
        outbound_run.id,
        left,
        0,
        [body],
    )
    return Batch(
        session.epoch,
        session.incarnation,
        outgoing.floor,
        outgoing.next,
        [run],
        acknowledged,
        extracted,
    )
