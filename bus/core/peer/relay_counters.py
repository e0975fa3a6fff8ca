"""`RelayCounters`: counts the outcomes of messages posted to relays (BUS-FLOW-7)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

__all__ = ["ENDS", "End", "RelayCounters"]

End: TypeAlias = Literal["taken", "dropped", "returned", "failed", "in_doubt"]

ENDS: Final[tuple[End, ...]] = get_args(End)


class RelayCounters(Struct, eq=False):
    """The counters of one relay, of all relays for one process, or of all relays.

    At every step, ``posted == ended +`` the number of messages present in the relays.

    posted: messages of all kinds; a message posted again counts again.
    taken: messages extracted by their addressees; commands_taken: the commands among
      these.
    dropped: messages dropped in favour of newer ones, or because they were unwanted.
    returned: messages sent elsewhere. failed: messages that expired, found no room, or
      had no reachable addressee.
    in_doubt: messages that may or may not have been extracted.

    whole: the counters that include these, and in which every change is counted too.
    """

    whole: RelayCounters | None = None
    posted: int = 0
    taken: int = 0
    commands_taken: int = 0
    dropped: int = 0
    returned: int = 0
    failed: int = 0
    in_doubt: int = 0

    @property
    def ended(self) -> int:
        """The number of messages that are no longer in relays."""
        return sum([getattr(self, end) for end in ENDS])

    def post(self, count: int) -> None:
        """Count messages posted to a relay."""
        counters: RelayCounters | None = self
        while counters is not None:
            counters.posted += count
            counters = counters.whole

    def take(self, count: int, commands: int) -> None:
        """Count extracted messages; commands: how many of them are commands."""
        counters: RelayCounters | None = self
        while counters is not None:
            counters.taken += count
            counters.commands_taken += commands
            counters = counters.whole

    def end(self, how: End, count: int) -> None:
        """Count messages that are no longer in a relay."""
        counters: RelayCounters | None = self
        while counters is not None:
            setattr(counters, how, getattr(counters, how) + count)
            counters = counters.whole
