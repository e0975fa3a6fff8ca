"""`Books`: every message of a run, and what became of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import attrs

from bus.address import Address
from bus.errors import InDoubtError, PeerLostError

if TYPE_CHECKING:
    from bus.core.routing_table import RegistrationId
    from bus.errors import BusError

__all__ = ["Books", "BrokenPromiseError", "Letter"]


class BrokenPromiseError(AssertionError):
    """Something that must never be so, was."""


@attrs.define(eq=False)
class Letter:
    """One command, as its sender knows it.

    life: the incarnation of the sender's process. to: as it was addressed.
    told: what its sender was told of it. gone: whether its sender's process ended.
    sought: whether it ever waited for its addressee to be found: what its sender
      notified meanwhile went before it.
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
        """Whether it is known what became of it."""
        return bool(self.taken_by or self.told or self.expired or self.gone)


class Books:
    """What all processes together did with messages.

    ordered: whether what one task sends to one name is read in order whoever has it;
      while processes are lost only each one of them reads in order.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.letters: dict[int, Letter] = {}
        self.notifications: dict[RegistrationId, list[int]] = {}
        self.heard: dict[tuple[int, RegistrationId], int] = {}
        self._ways: dict[tuple[RegistrationId, RegistrationId], object] = {}
        self._last: dict[tuple[RegistrationId, object], int] = {}
        self._last_heard: dict[tuple[RegistrationId, RegistrationId], int] = {}

    def sent(self, letter: Letter) -> None:
        """Note a command."""
        self.letters[letter.number] = letter

    def taken(self, number: int, by: RegistrationId, name: str) -> None:
        """Note that a callback ran."""
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
        """Note that one was too late when it was to be read."""
        letter = self.letters[number]
        if letter.expired or letter.taken_by is not None:
            raise BrokenPromiseError(f"message {number} has two ends")
        letter.expired = True

    def told(self, number: int, error: BusError) -> None:
        """Note what the sender is told."""
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
        """Note an answer that came."""
        letter = self.letters[number]
        letter.answers += 1
        if letter.answers > 1 or letter.taken_by is None or not letter.asks:
            raise BrokenPromiseError(f"answer to message {number}, out of the blue")

    def notifies(self, number: int, sender: RegistrationId) -> None:
        """Note a notification."""
        self.notifications.setdefault(sender, []).append(number)

    def notified(
        self,
        number: int,
        sender: RegistrationId,
        hearer: RegistrationId,
        gap: int,
        way: object = None,
    ) -> None:
        """Note that a notification was heard; gap: how many it says are missing.

        It may say less than there are: what was sent while nobody heard is no gap. But
        of what comes by the same way as the one before nothing is missing untold.
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
        """Note that a process has ended, and all that only it knew."""
        for letter in self.letters.values():
            if letter.life == life and not letter.decided:
                letter.gone = True

    def open(self) -> list[Letter]:
        """Return those whose end is not known."""
        return [each for each in self.letters.values() if not each.decided]
