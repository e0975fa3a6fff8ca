"""`Opening`: the opening of a task's mailbox, with the messages parked for its name."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from bus.threads.account import Admission
from bus.threads.inbox import report_dropped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.local.inbound_run import InboundRun
    from bus.core.local.routing_table import Entry
    from bus.message import Incoming
    from bus.threads.mailbox import Mailbox
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Opening"]


class Opening:
    """The opening of the mailbox of one task, at most once, in its thread.

    The task cannot move, and its thread cannot end, until it is open.
    """

    __slots__ = (
        "_dropped",
        "_entry",
        "_fits",
        "_host",
        "_left",
        "_mailbox",
        "_taken",
        "_verdict",
    )

    def __init__(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        self._entry: Final = entry
        self._host: Final[ThreadManager] = entry.host
        self._mailbox: Final[Mailbox] = entry.mailbox
        self._fits: Final[list[Incoming]] = []
        self._left: Final = deque(messages)
        # The message that is being admitted, or was when an interrupt came, and what
        # the account has decided on it; None before.
        self._taken: Incoming | None = None
        self._verdict: Admission | None = None
        self._dropped: Final[list[Incoming | InboundRun]] = []

    def _admit(self) -> None:
        """Charge the parked messages to the account of the task; keep those that fit.

        Each other message fails, and its sender gets the error. After an interrupt, the
        next call continues with the message that was being admitted: none is lost, or
        admitted or counted twice.
        """
        if self._taken is not None:
            self._settle(self._taken)
        while self._left:
            # No call between these lines: an interrupt finds the message in one place.
            message = self._taken = self._left[0]
            self._verdict = None
            del self._left[0]
            self._settle(message)
        while self._dropped:
            dropped = self._dropped[0]
            report_dropped((dropped,))
            # Not before: a repeated report is harmless, and none may be lost.
            del self._dropped[0]

    def _settle(self, message: Incoming) -> None:
        entry, account = self._entry, self._mailbox.client.account
        if self._verdict is None:
            message._to, message._account = entry, account
            with self._host.inbox.lock:
                self._verdict = account.admit_locked(message, self._dropped)
        if self._verdict is Admission.ACCEPTED:
            if not (self._fits and self._fits[-1] is message):
                if message._trace is not None:
                    message._trace.record_accepted(entry.id.number)
                self._fits.append(message)
        else:
            error = account.error(f"task {entry.name!r}")
            message._source.mailbox.client.on_undeliverable(message, error)
        self._taken = None

    def open(self) -> None:
        """Admit the messages; open the mailbox now, or in `Receiver.run_openings`.

        After an interrupt the caller repeats the call.
        """
        self._admit()
        if not self._mailbox.client.postpone(self._open_in_host_thread):
            self._open_in_host_thread()

    def _open_in_host_thread(self) -> None:
        # The thread posts no request to itself: it may never serve, and then its inbox
        # would keep every task that registers and deregisters.
        if self._host.between_callbacks():
            self._open()
        else:
            self._host.ask(self._open)

    def _open(self) -> None:
        if self._mailbox.held:  # after an interrupt this may be called a second time
            self._host.open(self._entry, self._fits)
