"""`Counters`: every message of a run, and its outcome."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import attrs

from bus.errors import InDoubtError, PeerLostError
from bus.model.address import Address

if TYPE_CHECKING:
    from bus.errors import BusError
    from bus.kernel.wire import RequestId
    from bus.model.registration import RegistrationId

__all__ = ["BrokenPromiseError", "Command", "Counters"]


class BrokenPromiseError(AssertionError):
    """A violated invariant."""


@attrs.define(eq=False)
class Command:
    """One command, as its sender knows it.

    life: the incarnation of the sender's process. to: the address given by the sender.
    reported: the error reported to the sender. gone: True if the sender's process has
      ended.
    sought: True if it ever waited for a search for its addressee; notifications sent
      meanwhile may have overtaken it.
    """

    number: int
    sender: RegistrationId
    life: int
    to: str
    asks: bool
    taken_by: RegistrationId | None = None
    reported: BusError | None = None
    expired: bool = False
    gone: bool = False
    sought: bool = False
    answers: int = 0

    @property
    def decided(self) -> bool:
        """True if its outcome is known."""
        return bool(self.taken_by or self.reported or self.expired or self.gone)


class Counters:
    """The fate of the messages of all processes together.

    ordered: True if the messages from one task to one name are read in order by all
      successive holders of the name. While processes are lost, only each single holder
      reads in order.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.commands: dict[int, Command] = {}
        self.notifications: dict[RegistrationId, list[int]] = {}
        self.requests: dict[int, frozenset[RequestId]] = {}  # by notification
        self.received: dict[tuple[int, RegistrationId], int] = {}
        self._ways: dict[tuple[RegistrationId, RegistrationId], object] = {}
        self._last: dict[tuple[RegistrationId, object], int] = {}
        self._last_heard: dict[tuple[RegistrationId, RegistrationId], int] = {}

    def sent(self, command: Command) -> None:
        """Record a command that was sent."""
        self.commands[command.number] = command

    def taken(self, number: int, by: RegistrationId, name: str) -> None:
        """Record that a callback ran."""
        command = self.commands.get(number)
        if command is None:
            raise BrokenPromiseError(f"message {number} was never sent")
        if command.taken_by is not None:
            raise BrokenPromiseError(f"message {number} is delivered twice")
        if command.expired or (
            command.reported is not None
            and not isinstance(command.reported, InDoubtError)
        ):
            raise BrokenPromiseError(
                f"message {number} was refused: {command.reported}"
            )
        if Address.parse(command.to).module != name:
            raise BrokenPromiseError(f"message {number} for {command.to} is at {name}")
        command.taken_by = by
        for key in (by, command.to) if self.ordered else (by,):
            if self._last.get((command.sender, key), 0) > number:
                raise BrokenPromiseError(f"message {number} was overtaken")
            self._last[command.sender, key] = number
        received = self._last_heard.get((command.sender, by), 0)
        if received > number and not command.sought:
            raise BrokenPromiseError(
                f"message {number} is behind notification {received}"
            )

    def expired(self, number: int) -> None:
        """Record that a message had expired when its task read it."""
        command = self.commands[number]
        if command.expired or command.taken_by is not None:
            raise BrokenPromiseError(f"message {number} has two ends")
        command.expired = True

    def reported(self, number: int, error: BusError) -> None:
        """Record an error reported to the sender."""
        command = self.commands[number]
        if isinstance(error, PeerLostError):
            if command.answers or not (command.taken_by or command.expired):
                raise BrokenPromiseError(f"message {number} needs no answer: {error}")
            return
        if command.reported is not None:
            raise BrokenPromiseError(f"message {number} is reported twice: {error}")
        doubt = isinstance(error, InDoubtError)
        if command.taken_by is not None and not doubt:
            raise BrokenPromiseError(f"message {number} was delivered: {error}")
        command.reported = error

    def answered(self, number: int) -> None:
        """Record an answer that arrived."""
        command = self.commands[number]
        command.answers += 1
        if command.answers > 1 or command.taken_by is None or not command.asks:
            raise BrokenPromiseError(f"answer to message {number}, out of the blue")

    def notifies(
        self,
        number: int,
        sender: RegistrationId,
        requests: frozenset[RequestId] = frozenset(),
    ) -> None:
        """Record a notification that was sent.

        requests: the subscriptions of other processes that it is sent to.
        """
        self.notifications.setdefault(sender, []).append(number)
        self.requests[number] = requests

    def notified(
        self,
        number: int,
        sender: RegistrationId,
        hearer: RegistrationId,
        gap: int,
        way: object = None,
    ) -> None:
        """Record that a subscriber received a notification.

        gap: the number of missing notifications that it reports. The number may be too
          small, since notifications sent while the task was not subscribed are no gap.
        way: if it is the way of the previous notification, the gap must be exact.
        """
        times = self.received.get((number, hearer), 0) + 1
        self.received[number, hearer] = times
        if times > 1:
            raise BrokenPromiseError(
                f"notification {number} is received twice: {hearer}"
            )
        both = sender, hearer
        if max(self._last_heard.get(both, 0), self._last.get(both, 0)) > number:
            raise BrokenPromiseError(f"notification {number} was overtaken")
        sent, last = self.notifications[sender], self._last_heard.get(both, 0)
        missing = bisect_left(sent, number) - bisect_right(sent, last)
        if way is not None and self._ways.get(both) == way and gap != missing:
            raise BrokenPromiseError(f"{gap} before {number}, but {missing} missing")
        self._ways[both] = way
        if gap > missing:
            raise BrokenPromiseError(f"{gap} before {number}, not {missing}, missing")
        self._last_heard[both] = number

    def ended(self, life: int) -> None:
        """Record the end of a process: the outcome of its commands stays unknown."""
        for command in self.commands.values():
            if command.life == life and not command.decided:
                command.gone = True

    def open(self) -> list[Command]:
        """Return the commands whose outcome is not known."""
        return [each for each in self.commands.values() if not each.decided]
