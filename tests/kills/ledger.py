"""`Ledger`: the fate of each message, judged by the notes of all processes.

It knows only which processes have died, and trusts the notes. Each message that a
living process sent has one outcome, and its receivers note it as often as `RULES`
allow. No message is noted twice, ever. A message of a dead sender has no outcome, and
is received at most once.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from tests.kills.notes import Note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["OF_DEATH", "RULES", "Fate", "Ledger", "Verdict", "Wish"]


class Wish(enum.StrEnum):
    """The sender's wish for a message."""

    ASKED = "ask"  # an answer
    BRIEF = "brief"  # an answer, and soon
    TOLD = "tell"  # an error, if it is not delivered


class Fate(enum.StrEnum):
    """The fate of a message."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    EXPIRED = "expired"
    DOUBT = "in doubt"
    LOST = "lost"  # with the process that had taken it
    DEAD = "of the dead"  # its sender is dead


@attrs.frozen
class _Rule:
    """How often a message with an outcome may have been received."""

    fate: Fate
    least: int
    most: int
    brief: bool = False  # only if the answer was wanted soon


# By outcome; any other outcome is wrong.
RULES: Final = {
    "ok": _Rule(Fate.DELIVERED, 1, 1),
    "UnresolvedError": _Rule(Fate.REFUSED, 0, 0),
    "AddresseeGoneError": _Rule(Fate.REFUSED, 0, 0),
    "UnreachableError": _Rule(Fate.REFUSED, 0, 0),
    "BusFullError": _Rule(Fate.REFUSED, 0, 0),
    "ExpiredError": _Rule(Fate.EXPIRED, 0, 1, brief=True),
    "CommandTimeoutError": _Rule(Fate.EXPIRED, 0, 1, brief=True),
    "InDoubtError": _Rule(Fate.DOUBT, 0, 1),
    "PeerLostError": _Rule(Fate.LOST, 0, 1),
}
# Fates that only the death of a process explains.
OF_DEATH: Final = frozenset({Fate.DOUBT, Fate.LOST})


@attrs.define
class _Message:
    """One message, as far as the notes tell."""

    number: str
    to: str = ""  # empty until its SENT note is read
    wish: str = ""
    outcomes: list[str] = attrs.field(factory=list)
    got: list[str] = attrs.field(factory=list)  # the receiving lives
    taken: bool = False

    @property
    def sender(self) -> str:
        return self.number.partition("/")[0]

    @property
    def in_flight(self) -> bool:
        """True if its end is not known."""
        if self.wish == Wish.TOLD:
            return not (self.got or self.outcomes or self.taken)
        return not self.outcomes


@attrs.frozen
class Verdict:
    """How many messages had which fate; the violations, a sentence each.

    silent: how many lost messages have no note at all, since their senders wanted only
      an error if they were not delivered.
    """

    fates: Counter[Fate]
    faults: list[str]
    silent: int


class Ledger:
    """All messages; of a judged message, only how often it may still arrive."""

    __slots__ = ("_allowed", "_faults", "_heard", "_last", "_open", "killed")

    def __init__(self) -> None:
        self._open: dict[str, _Message] = {}
        self._allowed: dict[str, int] = {}
        self._heard: set[tuple[str, ...]] = set()
        # The last number that each task has received from each sender.
        self._last: dict[tuple[str, str, str], int] = {}
        self._faults: list[str] = []
        # The state in which each life was struck last.
        self.killed: dict[str, str] = {}

    def take(self, life: str, words: Sequence[str]) -> None:
        """Read one line of the notes of a life."""
        kind, number, *rest = words
        if kind == Note.KILLED:
            self.killed[life] = " ".join(words[1:])
        elif kind == Note.HEARD:
            hearing = (life, number, *rest)
            if hearing in self._heard:
                self._faults.append(f"notification {number} twice to {rest} of {life}")
            self._heard.add(hearing)
        elif kind == Note.BROKEN:
            self._faults.append(f"{number} is not what was sent, at {life}")
        elif number in self._allowed:
            self._take_late(life, kind, number, rest)
        else:
            self._take_open(life, kind, number, rest)

    def _take_open(self, life: str, kind: str, number: str, rest: list[str]) -> None:
        message = self._open.setdefault(number, _Message(number))
        if kind == Note.SENT:
            message.to, message.wish = rest
        elif kind == Note.OUTCOME:
            message.outcomes.append(rest[0])
        elif kind == Note.TAKEN:
            message.taken = True
        else:
            message.got.append(life)
            self._check_order(life, number, rest[0])

    def _take_late(self, life: str, kind: str, number: str, rest: list[str]) -> None:
        """Read a note of a message that was judged."""
        if kind == Note.GOT:
            self._check_order(life, number, rest[0])
        if kind == Note.TAKEN:
            return
        if kind == Note.GOT and self._allowed[number]:
            self._allowed[number] -= 1
        else:
            self._faults.append(f"{number} was over, and {life} notes {kind} {rest}")

    def _check_order(self, life: str, number: str, task: str) -> None:
        """Check that messages between two tasks arrive in order, within each life."""
        sender, _, text = number.partition("/")
        key = (life, task, sender)
        last = self._last.get(key, 0)
        if int(text) < last:
            self._faults.append(
                f"{number} came to {task} of {life} after {sender}/{last}"
            )
        self._last[key] = max(last, int(text))

    def in_flight(self) -> int:
        """Return how many messages are known to be sent, without a known end."""
        return sum(each.in_flight for each in self._open.values())

    def sent_to(self, names: Collection[str]) -> int:
        """Return how many messages in flight are for some names."""
        return sum(m.in_flight and m.to in names for m in self._open.values())

    def undecided(self, dead: Collection[str], orphaned: Collection[str]) -> list[str]:
        """Return the messages of living senders that have no outcome yet.

        dead: all lives that were killed. orphaned: the names held by lives that were
          killed since the last verdict; messages that these had taken are lost without
          an error.
        """
        return [
            f"{each.number} has no outcome: {each}"
            for each in self._open.values()
            if each.in_flight
            and each.sender not in dead
            and not (each.wish == Wish.TOLD and each.to in orphaned)
        ]

    def judge(self, dead: Collection[str], orphaned: Collection[str]) -> Verdict:
        """Judge all open messages; nothing may be under way."""
        faults = self._faults + self.undecided(dead, orphaned)
        fates: Counter[Fate] = Counter()
        silent = 0
        for message in self._open.values():
            if len(message.got) > 1:
                faults.append(f"{message.number} came twice: {message}")
            most = 1
            if message.sender in dead:
                fates[Fate.DEAD] += 1
            elif not message.to:
                faults.append(f"{message.number} was never sent: {message}")
            elif message.outcomes:
                fate, most = _judged(message, faults)
                fates[fate] += 1
            else:
                fates[Fate.DELIVERED if message.got else Fate.LOST] += 1
                silent += not (message.got or message.taken)
            self._allowed[message.number] = max(0, most - len(message.got))
        self._faults = []
        self._open = {}
        return Verdict(fates, faults, silent)


def _judged(message: _Message, faults: list[str]) -> tuple[Fate, int]:
    """Return the fate of a message, and how often it may be received."""
    outcome = message.outcomes[0]
    rule = RULES.get(outcome)
    if len(message.outcomes) > 1:
        faults.append(f"{message.number} has several outcomes: {message}")
    if rule is None or (rule.brief and message.wish != Wish.BRIEF):
        faults.append(f"{message.number} has an outcome that cannot be: {message}")
        return Fate.REFUSED, 1
    if not rule.least <= len(message.got) <= rule.most:
        faults.append(f"{message.number} came {len(message.got)} times: {message}")
    return rule.fate, rule.most
