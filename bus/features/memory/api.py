"""`new_loan`: a buffer in shared memory in which a task writes a long message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from bus.api.arguments import UNSET, OnFull, Unset, deadline_after, wrong_type
from bus.api.bus_thread import check_may_wait
from bus.api.outcome import AwaitedOutcome
from bus.errors import ArenaFullError
from bus.features.memory.link_memory import LinkMemory, LoanRequest
from bus.kernel.wire import FOLLOWS_MIN
from bus.model.loan import Loan
from bus.model.payload import size_with_length
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.sender import Sender
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.thread_manager import ThreadManager

__all__ = ["new_loan"]

_POLICIES: Final[tuple[str, ...]] = get_args(OnFull)


def new_loan(
    sender: Sender,
    entry: Entry,
    nbytes: int,
    on_full: OnFull,
    timeout: float | Unset | None,
) -> Loan:
    """Return a loan for a task; see `Task.loan`."""
    config = sender.bus._config
    _check_size(nbytes, config.message_bytes_max)
    if on_full not in _POLICIES:
        text = f"on_full must be one of {', '.join(_POLICIES)}, got {on_full!r}"
        raise ValueError(text)
    seconds = config.send_timeout_s if timeout is UNSET else timeout
    deadline, host = deadline_after(seconds), sender.require_host()
    comm = sender.bus._exchange.comm
    memory = None if comm is None else comm.bodies
    view: memoryview | None = None
    # A shorter message is not sent through the arena, which would round its size up.
    if isinstance(memory, LinkMemory) and nbytes >= FOLLOWS_MIN:
        # There never is room for more than the arena.
        waits = on_full == "wait" and nbytes <= config.arena_bytes
        if waits:
            check_may_wait(
                "wait",
                ", whose thread may have to release a message: use on_full='error'"
                " there",
            )
        view = _lend(memory, sender, entry, host, nbytes, deadline, waits=waits)
    if view is None:
        return Loan(entry.name, memoryview(bytearray(nbytes)), shared=False)
    return Loan(entry.name, view, shared=True)


def _check_size(nbytes: object, message_bytes_max: int) -> None:
    if isinstance(nbytes, bool) or not isinstance(nbytes, int):
        raise wrong_type("nbytes", "an int", nbytes)
    most = message_bytes_max - (size_with_length(message_bytes_max) - message_bytes_max)
    if not 1 <= nbytes <= most:
        raise ValueError(
            f"nbytes must be from 1 to {most}, got {nbytes}: "
            f"BusConfig.message_bytes_max is {message_bytes_max}"
        )


def _lend(
    memory: LinkMemory,
    sender: Sender,
    entry: Entry,
    host: ThreadManager,
    nbytes: int,
    deadline: float | None,
    *,
    waits: bool,
) -> memoryview | None:
    """Return a writable view in the arena; None if it is closed.

    Raises:
        ArenaFullError: there is no room, or none in time.
    """
    # The comm thread answers as soon as there is room. In the main thread it does so in
    # any case: an interrupt would leave the arena half changed.
    if not _sync.may_be_interrupted():
        try:
            return memory.lend(nbytes)
        except ArenaFullError:
            if not waits:
                raise
    awaited = _AwaitedLoan(entry, host, serves=waits)
    request = LoanRequest(nbytes, awaited.on_answer, waits=waits)
    memory.post_request(request)
    try:
        return awaited.wait(sender, deadline if waits else None, nbytes)
    finally:
        request.withdrawn = True


class _AwaitedLoan(AwaitedOutcome["list[memoryview | ArenaFullError | None]"]):
    """The answer to a request for a loan; a list, since None is an answer, too."""

    __slots__ = ()

    def on_answer(self, answer: memoryview | ArenaFullError | None) -> None:
        self.on_outcome([answer])

    def wait(
        self, sender: Sender, deadline: float | None, nbytes: int
    ) -> memoryview | None:
        self.wait_until_over(deadline)
        sender.require_host()  # a task that has left is the more precise error
        if self.outcome is None:
            raise ArenaFullError(nbytes, sender.bus._config.arena_bytes)
        [answer] = self.outcome
        if isinstance(answer, ArenaFullError):
            raise answer
        return answer
