"""`receive_any`: the first message of several queues, for coroutines (QB-WAIT-1).

The counterpart of `queuebroker.first.receive_any`, which describes the races.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.waiting import handed_on, undone_if_interrupted
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import deadline_after
from queuebroker.channel import message_queue as plain
from queuebroker.first import Selection, check_queues

__all__ = ["receive_any"]


async def receive_any(
    queues: Iterable[MessageQueue], *, timeout: float | None = None
) -> tuple[MessageQueue, bytes]:
    """Receive one message from one of several queues; return both.

    As `queuebroker.receive_any`; a call cancelled while it waits has taken nothing.
    """
    faces = check_queues(queues, MessageQueue)
    selection = Selection([face.queue for face in faces])
    deadline = deadline_after(timeout)
    taken = selection.take()
    if taken is None and timeout != 0:
        taken = await undone_if_interrupted(
            partial(_wait, selection, deadline), partial(_leave, selection)
        )
    if taken is None:
        raise selection.nothing_came(timeout)
    end, message = taken
    return next(face for face in faces if face.queue is end), message


async def _wait(
    selection: Selection, deadline: float | None
) -> tuple[plain.MessageQueue, bytes] | None:
    """Sleep and take, until there is a message or time is up."""
    taken = None
    expired = False
    while taken is None and not expired:
        waiter = selection.enlist(running_waker().waiter)
        if not selection.ready():
            expired = not await waiter.slept(deadline)
        taken = selection.take()
        selection.withdraw()
    return taken


def _leave(selection: Selection, error: BaseException) -> None:
    """Stop waiting after an exception; may be repeated."""
    if isinstance(error, GeneratorExit):
        selection.forget(handed_on)  # see `queuebroker.aio.waiting`
    selection.withdraw()
