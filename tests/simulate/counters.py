"""`Counters`: every message of a run, and its outcome."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import attrs

from bus.address import Address
from bus.errors import InDoubtError, PeerLostError

if TYPE_CHECKING:
    from bus.core.wire import RequestId
    from bus.errors import BusError
    from bus.registration import RegistrationId

__all__ = ["BrokenPromiseError", "Counters", "Letter"]


class BrokenPromiseError(AssertionError):
    """A violated invariant."""


@attrs.define(eq=False)
class Letter:
    """One command, as its sender knows it.

    life: the incarnation of the sender's process. to: the address given by the sender.
    told: the error reported to the sender. gone: True if the sender's process has
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
    told: BusError | None = None
    expired: bool = False
    gone: bool = False
    sought: bool = False
    answers: int = 0

    @property
    def decided(self) -> bool:
        """True if its outcome is known."""
        return bool(self.taken_by or self.told or self.expired or self.gone)


class Counters:
    """The fate of the messages of all processes together.

    ordered: True if the messages from one task to one name are read in order by all
      successive holders of the name. While processes are lost, only each single holder
      reads in order.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.letters: dict[int, Letter] = {}
        self.notifications: dict[RegistrationId, list[int]] = {}
        self.requests: dict[int, frozenset[RequestId]] = {}  # by notification
        self.heard: dict[tuple[int, RegistrationId], int] = {}
        self._ways: dict[tuple[RegistrationId, RegistrationId], object] = {}
        self._last: dict[tuple[RegistrationId, object], int] = {}
        self._last_heard: dict[tuple[RegistrationId, RegistrationId], int] = {}

    def sent(self, letter: Letter) -> None:
        """Record a command that was sent."""
        self.letters[letter.number] = letter

    def taken(self, number: int, by: RegistrationId, name: str) -> None:
        """Record that a callback ran."""
        letter = self.letters.get(number)
        if letter is None:
            raise BrokenPromiseError(f"message {number} was never sent")
        if letter.taken_by is not None:
            raise BrokenPromiseError(f"message {number} is delivered twice")
        if letter.expired or (
            letter.told is not None and not isinstance(letter.told, InDoubtError)
        ):
            raise BrokenPromiseError(f"message {number} was refused: {letter.told}")
        if Address.parse(letter.to).module != name:
            raise BrokenPromiseError(f"message {number} for {letter.to} is at {name}")
        letter.taken_by = by
        for key in (by, letter.to) if self.ordered else (by,):
            if self._last.get((letter.sender, key), 0) > number:
                raise BrokenPromiseError(f"message {number} was overtaken")
            self._last[letter.sender, key] = number
        heard = self._last_heard.get((letter.sender, by), 0)
        if heard > number and not letter.sought:
            raise BrokenPromiseError(f"message {number} is behind notification {heard}")

    def expired(self, number: int) -> None:
        """Record that a message had expired when its task read it."""
        letter = self.letters[number]
        if letter.expired or letter.taken_by is not None:
            raise BrokenPromiseError(f"message {number} has two ends")
        letter.expired = True

    def told(self, number: int, error: BusError) -> None:
        """Record an error reported to the sender."""
        letter = self.letters[number]
        if isinstance(error, PeerLostError):
            if letter.answers or not (letter.taken_by or letter.expired):
                raise BrokenPromiseError(f"message {number} needs no answer: {error}")
            return
        if letter.told is not None:
            raise BrokenPromiseError(f"message {number} is told of twice: {error}")
        doubt = isinstance(error, InDoubtError)
        if letter.taken_by is not None and not doubt:
            raise BrokenPromiseError(f"message {number} was delivered: {error}")
        letter.told = error

    def answered(self, number: int) -> None:
        """Record an answer that arrived."""
        letter = self.letters[number]
        letter.answers += 1
        if letter.answers > 1 or letter.taken_by is None or not letter.asks:
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
        times = self.heard.get((number, hearer), 0) + 1
        self.heard[number, hearer] = times
        if times > 1:
            raise BrokenPromiseError(f"notification {number} is heard twice: {hearer}")
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
        for letter in self.letters.values():
            if letter.life == life and not letter.decided:
                letter.gone = True

    def open(self) -> list[Letter]:
        """Return the commands whose outcome is not known."""
        return [each for each in self.letters.values() if not each.decided]
