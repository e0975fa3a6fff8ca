"""A task that sends by one send batch, and checks of its room."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bus.api.command_handle import NO_QUESTION, CommandHandle
from bus.api.task import Task
from bus.errors import BusFullError
from bus.links.send_batch import SendBatch
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.links.posting import Process

__all__ = ["LOOKS", "Sending", "add", "adds", "all_is_given_back"]

# Here the sender reads shared state without a lock, and other threads read its state.
LOOKS = [Task.command, SendBatch.confirm, SendBatch.take, SendBatch.reclaim_locked]


def adds(send_batch: SendBatch, payloads: Sequence[bytes]) -> list[bytes]:
    """Add payloads, as a task of the calling thread does; return the accepted ones."""
    return [payload for payload in payloads if add(send_batch, payload)]


def add(send_batch: SendBatch, payload: bytes) -> bool:
    send_batch.thread = _sync.get_ident()  # type: ignore[misc] # as if it had made it
    task = Sending(send_batch)
    with suppress(BusFullError):  # the wait for room timed out
        task.command("far", payload)
        return not task.left
    return False


class Sending(Task):
    """A task with an open send batch, and no other way to send.

    left: payloads that would go another way.
    """

    __slots__ = ("left",)

    def __init__(self, send_batch: SendBatch) -> None:
        self._send_batches = {"far": send_batch}  # type: ignore[misc]
        self._sender = self  # type: ignore[misc, assignment]
        self.left: list[Any] = []

    def command_one(self, _to: str, payload: Any, *_: object) -> CommandHandle:
        """Note a payload that goes another way; stands in for `Sender`."""
        self.left.append(payload)
        return NO_QUESTION


def all_is_given_back(process: Process) -> None:
    """Check that no message is queued, and that all room is free again."""
    process.round()
    process.leave()
    relay_account = process.relay.client
    assert relay_account.unread == 0
    assert relay_account._posted == relay_account._moved == relay_account._left
    assert (
        relay_account._posted_bytes
        == relay_account._moved_bytes
        == relay_account._left_bytes
    )
    assert not relay_account._send_batches
