"""`Comm`: what an exchange wants of the thread that knows other processes.

A process that is alone on its bus has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.core.actions import Action
    from bus.core.command_run import CommandRun
    from bus.core.routing_table import Entry
    from bus.core.tap import Tap
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.threads.account import Account

__all__ = ["Comm"]


class Comm(Protocol):
    """The comm thread of a process; every method from any thread.

    tap: notes the frames of all links; None while nobody listens (OPEN-12).
    """

    tap: Tap | None

    @property
    def audience(self) -> Entry:
        """What stands for all tasks of other processes that hear tasks of this one."""

    @property
    def account(self) -> Account:
        """What waits for that audience."""

    def nudge(self) -> None:
        """Let what was decided just now be said to others."""

    def do(self, action: Action) -> None:
        """Do what concerns other processes, or came from them."""

    def open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Let a relay send; first what waited for its name."""

    def command(self, command: Incoming) -> bool:
        """Send a command at once; False if it is to be posted as any other."""

    def answer(self, question: Incoming, payload: Payload, error: str | None) -> None:
        """Send the answer to what came from another process."""

    def taken(self, message: Incoming) -> None:
        """Note that a task took, or dropped, what came from another process."""

    def reading(self, run: CommandRun) -> None:
        """Note that a task reads, or has read, of what came from another process."""

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Let something be decided after all that was posted before by this thread."""

    def left(self, entry: Entry) -> None:
        """Note that a task has gone from its place."""

    def report(self, text: str) -> None:
        """Put an error into the log, soon: who calls this may hold a lock."""

    def holds(self, entry: Entry) -> bool:
        """Whether anything is held back for a task that had no room for it."""
