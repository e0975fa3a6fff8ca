"""`register_task`: the registration of a task, until its name is decided (OPEN-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.task import Task
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.receiver import Receiver
    from bus.api.task_owner import TaskOwner
    from bus.registration import Visibility
    from bus.threads.thread_manager import ThreadManager
    from bus.threads.verdict import Verdict

__all__ = ["register_task"]

# Maximum wait for the master's decision on a name (OPEN-3). A slave finds a new master
# within a second, and that one decides within another.
_VERDICT_S: Final = 2.0


def register_task(
    bus: TaskOwner,
    name: str,
    visibility: Visibility,
    host: ThreadManager,
    receiver: Receiver,
) -> Task:
    """Register a task in a thread; its callbacks run only after this function.

    host: the thread manager of that thread.

    Raises:
        NameTakenError, AccessDeniedError, UnknownTaskError: as `Bus.register`.
    """
    receiver.postpone_openings()
    entry = None
    try:
        entry = bus._exchange.register(name, visibility, bus.name, host, receiver)
        task = Task(bus, entry, receiver)
        if receiver.verdict is not None:
            _await_verdict(bus, receiver.verdict)
        receiver.run_openings()
    except BaseException:
        if entry is not None:
            # An interrupt or a refusal: the caller gets no task to deregister.
            receiver.leave(entry, final=False)
        receiver.run_openings()
        raise
    return task


def _await_verdict(bus: TaskOwner, verdict: Verdict) -> None:
    wait_s = 0.0 if bus._threads.in_callback() else _VERDICT_S
    verdict.wait(_sync.monotonic() + wait_s)
