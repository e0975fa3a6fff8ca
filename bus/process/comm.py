"""`Comm`: the interface of the comm thread, as the exchange uses it.

A process that is alone on its bus has no comm thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.errors import HorizonError
    from bus.kernel.hooks import Bodies, Watcher
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.message import Incoming
    from bus.model.payload import Payload

__all__ = ["Comm", "NotificationAccount"]


class NotificationAccount(Protocol):
    """The account of the notifications to other processes, as an inspection sees it.

    delivered, dropped: how many the comm thread has taken, and how many were dropped.
    """

    dropped: int

    @property
    def delivered(self) -> int:
        """The number of notifications that the comm thread has taken."""

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of waiting notifications, and their length in bytes."""


class Comm(Protocol):
    """The comm thread of a process; any thread may call the methods.

    watcher: sees the frames of all links; None if no feature asks for them.
    """

    watcher: Watcher | None

    @property
    def remote(self) -> RemoteManager:
        """The remote manager: all decisions about other processes."""

    @property
    def audience(self) -> Entry:
        """The entry that stands for all remote subscribers of tasks of this process."""

    @property
    def account(self) -> NotificationAccount:
        """The account of the notifications queued for all remote subscribers."""

    @property
    def bodies(self) -> Bodies:
        """The slot for the bodies of long messages."""

    def on_internal_error(self) -> None:
        """Check the accounts with other processes soon, after an internal error."""

    def fail(self, error: HorizonError) -> None:
        """End the comm thread, before it sends another frame (AMO-20)."""

    def request_flush(self) -> None:
        """Request a flush of the control frames that the last decisions caused."""

    def do(self, action: Action) -> None:
        """Execute an action that concerns other processes, or came from them."""

    def on_cut_off(self, action: Action) -> None:
        """Handle an interrupt or an error in `do`, which may not have begun."""

    def open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Open a relay; it sends the messages parked for its name first."""

    def send_now(self, message: Incoming, encoded: bytes | None = None) -> bool:
        """Try to send a message at once; return False if it must be posted instead.

        encoded: the encoding of its payload, if it is known.
        """

    def answer(
        self,
        question: Incoming,
        payload: Payload,
        error: str | None,
        encoded: bytes | None = None,
    ) -> None:
        """Send the answer to a message from another process; encoded: as above."""

    def on_extracted(self, message: Incoming) -> None:
        """Note that a task extracted or dropped a message, local or remote."""

    def on_run_progress(self, run: InboundRun) -> None:
        """Note that a task reads, or has read, from a run of another process."""

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Pass an event to the manager, behind all earlier posts of this thread."""

    def on_room(self, entry: Entry) -> None:
        """Note that a task has left its host."""

    def report(self, text: str) -> None:
        """Log an error later, in the comm thread: the caller may hold a lock."""

    def holds(self, entry: Entry) -> bool:
        """Return True if messages are held back for a task that had no room."""
