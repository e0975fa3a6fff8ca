"""`receive_any`: the first message of several queues, for coroutines (QB-WAIT-1).

The twin of `queuebroker.waiting.receive_any`, which tells the races.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.waiting import handed_on
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import check_instance, deadline_after
from queuebroker.waiting import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queuebroker.aio.waker import Waiter

__all__ = ["receive_any"]


async def receive_any(
    queues: Iterable[MessageQueue], *, timeout: float | None = None
) -> tuple[MessageQueue, bytes]:
    """Receive one message from one of several queues; return both.

    As `queuebroker.receive_any`; cancelled while it waits, it has taken nothing.
    """
    faces = list(queues)
    for position, face in enumerate(faces):
        check_instance(f"queues[{position}]", face, MessageQueue)
    selection = Selection([face.queue for face in faces])
    deadline = deadline_after(timeout)
    taken = selection.take()
    expired = timeout == 0
    while taken is None and not expired:
        waiter: Waiter | None = None
        try:
            waiter = selection.enlist(running_waker().waiter)
            if not selection.ready():
                expired = not await waiter.slept(deadline)
            taken = selection.take()
            selection.withdraw()
        except BaseException as error:
            try:
                _leave(selection, waiter, error)
            except BaseException:
                _leave(selection, waiter, error)
                raise
            raise
    if taken is None:
        raise selection.nothing_came(timeout)
    end, message = taken
    return next(face for face in faces if face.queue is end), message


def _leave(selection: Selection, waiter: Waiter | None, error: BaseException) -> None:
    """Wait no more, since an exception struck; may be repeated."""
    if isinstance(error, GeneratorExit):
        # See `queuebroker.aio.waiting`; here there is one list for each queue.
        selection._listed = [
            end
            for end in selection._listed
            if not handed_on(end._connection.flows[end._side].buffer.arrived, waiter)
        ]
    selection.withdraw()
