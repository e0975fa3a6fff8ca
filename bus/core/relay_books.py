"""`RelayBooks`: what became of messages that were given to relays (BUS-FLOW-7)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import attrs

__all__ = ["ENDS", "End", "RelayBooks"]

End: TypeAlias = Literal["taken", "dropped", "returned", "failed", "in_doubt"]

ENDS: Final[tuple[End, ...]] = get_args(End)


@attrs.define(eq=False)
class RelayBooks:
    """The books of one relay, of those for one process, or of all there are.

    ``posted == ended + what is in the relays``, at every step.

    posted: messages of all kinds; again if they came back.
    taken: by their addressees; commands_taken: how many of these were commands.
    dropped: for newer ones, or since nobody is there who wants them.
    returned: sent elsewhere. failed: too late, too many, or nowhere to go to.
    in_doubt: nobody knows whether they were taken.

    whole: the books of which these are a part, and in which all is noted, too.
    """

    whole: RelayBooks | None = attrs.field(default=None, repr=False)
    posted: int = attrs.field(default=0, init=False)
    taken: int = attrs.field(default=0, init=False)
    commands_taken: int = attrs.field(default=0, init=False)
    dropped: int = attrs.field(default=0, init=False)
    returned: int = attrs.field(default=0, init=False)
    failed: int = attrs.field(default=0, init=False)
    in_doubt: int = attrs.field(default=0, init=False)

    @property
    def ended(self) -> int:
        """How many are in relays no more."""
        return sum([getattr(self, end) for end in ENDS])

    def post(self, count: int) -> None:
        """Note messages that go into a relay."""
        books: RelayBooks | None = self
        while books is not None:
            books.posted += count
            books = books.whole

    def take(self, count: int, commands: int) -> None:
        """Note messages that were taken; commands: how many of them are that."""
        books: RelayBooks | None = self
        while books is not None:
            books.taken += count
            books.commands_taken += commands
            books = books.whole

    def end(self, how: End, count: int) -> None:
        """Note messages that are in a relay no more."""
        books: RelayBooks | None = self
        while books is not None:
            setattr(books, how, getattr(books, how) + count)
            books = books.whole
