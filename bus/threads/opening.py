"""`Opening`: the opening of a task's mailbox, with the messages parked for its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.threads.account import Admission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.local.routing_table import Entry
    from bus.message import Incoming
    from bus.threads.mailbox import Mailbox
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Opening"]


class Opening:
    """The opening of the mailbox of one task, at most once, in its thread.

    The task cannot move, and its thread cannot end, until it is open.
    """

    __slots__ = ("_entry", "_fits", "_host", "_mailbox")

    def __init__(self, entry: Entry) -> None:
        self._entry: Final = entry
        self._host: Final[ThreadManager] = entry.host
        self._mailbox: Final[Mailbox] = entry.mailbox
        self._fits: Final[list[Incoming]] = []

    def admit(self, messages: Sequence[Incoming]) -> None:
        """Charge parked messages to the account of the task, and keep those that fit.

        Each other message fails, and its sender gets the error.
        """
        entry, host, fits = self._entry, self._host, self._fits
        account = self._mailbox.client.account
        dropped: list[Incoming] = []
        for message in messages:
            message._to, message._account = entry, account
            with host.inbox.lock:
                admission = account.admit_locked(message, dropped)
            if admission is Admission.ACCEPTED:
                if message._trace is not None:
                    message._trace.record_accepted(entry.id.number)
                fits.append(message)
            else:
                error = account.error(f"task {entry.name!r}")
                message._source.mailbox.client.on_undeliverable(message, error)
        for message in dropped:
            message._source.mailbox.client.on_dropped(message)

    def open(self) -> None:
        """Open the mailbox now, or when the client calls `Receiver.run_openings`."""
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
