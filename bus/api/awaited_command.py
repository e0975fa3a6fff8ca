"""`await_command`: the wait of a task without a callback for its next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.api.arguments import deadline_after
from bus.errors import CommandTimeoutError
from bus.message import Incoming

if TYPE_CHECKING:
    from bus.api.bus_thread import BusThread
    from bus.api.receiver import Receiver
    from bus.api.sender import Sender

__all__ = ["await_command"]


def await_command(
    thread: BusThread,
    sender: Sender,
    receiver: Receiver,
    timeout: float | None,
) -> Incoming:
    """Wait for a command and return it; see `Task.receive`.

    thread: hosts the task, and serves its other tasks meanwhile.
    """
    deadline, name = deadline_after(timeout), receiver.entry.name
    found = list[Incoming]()
    thread._check_mine(f"receive for {name!r}")
    if receiver.has_callback:
        msg = f"cannot receive for {name!r}: its commands go to a callback"
        raise RuntimeError(msg)

    def claimed() -> bool:
        sender.require_host()
        message = receiver.claim()
        if message is not None:
            found.append(message)
        return bool(found)

    if not thread._serve_until(claimed, deadline):
        assert timeout is not None
        raise CommandTimeoutError(name, timeout, missing="command for")
    return found[0]
