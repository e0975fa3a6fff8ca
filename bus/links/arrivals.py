"""`Arrivals`: messages from other processes on their way to tasks of this one.

A task that has no room holds them back, and so, since they are not taken, the window of
the relay they came from: what is sent too fast waits where it is sent (BUS-FLOW-2).
Notifications have no such window; so many of them are held back as a task may have
unread, and what is too much goes as each subscription has asked for (BUS-FLOW-3).

Actions are done by whichever thread is at it, also by one that hosts the task. What a
thread posts within itself overtakes what lies in its inbox; so all that came from
others goes through the inbox (BUS-MSG-15).
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from typing import TYPE_CHECKING, Final, cast

from bus.core.command_run import CommandRun
from bus.events import BusReason
from bus.message import Incoming, Kind
from bus.threads.account import Admission

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.core.routing_table import Entry
    from bus.threads.account import Account
    from bus.threads.delivery import Answer

__all__ = ["Arrivals"]

# Policies of receivers whose senders wait, or are told: what there is no room for is
# held back whatever it is.
_WAITING: Final = frozenset({"block", "error"})


class Arrivals:
    """What is held back, by task. Actions are done one at a time, so nothing is locked.

    Args:
        messages_max, bytes_max: notifications that are held back for one task.

    Invariant: of one task nothing is given while something older is held back.
    """

    __slots__ = ("_bytes_max", "_held", "_messages_max")

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self._held: Final[dict[Entry, _Held]] = {}

    def __len__(self) -> int:
        """How many messages are held back."""
        return sum([len(held) for held in self._held.values()])

    def holds(self, entry: Entry) -> bool:
        """Whether anything is held back for a task; a look, from any thread."""
        return entry in self._held

    def deliver(self, entry: Entry, messages: Sequence[Incoming | CommandRun]) -> None:
        """Give messages to a task, or hold them back."""
        for kind, some in groupby(messages, type):
            if kind is Incoming:
                self._deliver(entry, list(cast("Iterator[Incoming]", some)))
                continue
            for run in cast("Iterator[CommandRun]", some):
                self._deliver_run(entry, run)

    def _deliver_run(self, entry: Entry, run: CommandRun) -> None:
        held = self._held.get(entry)
        if held is None and _give_run(entry, run):
            return
        if entry.box.client.account.overflow not in _WAITING:
            self._deliver(entry, run.rest())  # what becomes of each is its own story
            return
        if held is None:
            held = self._held[entry] = _Held()
        held.items.append(run)
        self.resume(entry)  # as below

    def _deliver(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        if messages[0].kind is Kind.NOTIFICATION:  # so all are
            for each in messages:
                # Here, and once: later the gap may include drops in this process.
                if each.gap:
                    _account(each).missed += each.gap
        held = self._held.get(entry)
        given = 0 if held is not None else _offer_run(entry, messages)
        for message in messages[given:]:
            if held is not None:
                self._hold(held, message)
            elif not _offer(entry, message):
                held = _Held()
                self._hold(held, message)
                self._held[entry] = held
        if held is not None:
            # Who has read meanwhile did not know that somebody waits for that.
            self.resume(entry)

    def resume(self, entry: Entry) -> None:
        """Give a task what it has room for; all of it to nowhere if it has left."""
        held = self._held.get(entry)
        if held is None:
            return
        while held.items and _give(entry, held.items[0]):
            held.take(held.items[0])
        if not held.items:
            del self._held[entry]
            if held.behind and (place := entry.place) is not None:
                with place.inbox.lock:
                    for account, count in held.behind.items():
                        account.miss_newest_locked(count)

    def _hold(self, held: _Held, message: Incoming) -> None:
        held.put(message)
        while held.notifications > self._messages_max or (
            held.bytes > self._bytes_max and held.notifications > 1
        ):
            held.drop(message)

    @staticmethod
    def answer(entry: Entry, answer: Answer) -> None:
        """Give an answer to a task, behind all that was given to it; see `Exchange`."""
        place = entry.place
        if place is not None and place.idle and entry.box.client.hears(answer):
            return
        while (place := entry.place) is not None:
            if place.inbox.offer(answer, place) is not Admission.GONE:
                return
        if answer._trace is not None:
            answer._trace.discarded(BusReason.UNWANTED)


class _Held:
    """What is held back for one task; of notifications also how much that is.

    behind: by account, how many were dropped after the last that is held, and what
      these would have told.
    """

    __slots__ = ("behind", "bytes", "items", "notifications")

    def __init__(self) -> None:
        self.items: Final[deque[Incoming | CommandRun]] = deque()
        self.behind: Final[Counter[Account]] = Counter()
        self.notifications: int = 0
        self.bytes: int = 0

    def __len__(self) -> int:
        runs = [each for each in self.items if isinstance(each, CommandRun)]
        return len(self.items) - len(runs) + sum(map(len, runs))

    def put(self, message: Incoming) -> None:
        self.items.append(message)
        if message.kind is Kind.NOTIFICATION:
            self.notifications += 1
            self.bytes += message._size
            message.gap += self.behind.pop(_account(message), 0)

    def take(self, message: Incoming | CommandRun) -> None:
        self.items.remove(message)  # mostly the first
        if isinstance(message, Incoming) and message.kind is Kind.NOTIFICATION:
            self.notifications -= 1
            self.bytes -= message._size

    def drop(self, newest: Incoming) -> None:
        """Drop a notification, the oldest that its subscription would rather lose."""
        following = (each for each in self.items if isinstance(each, Incoming))
        for message in following:
            if message.kind is Kind.NOTIFICATION:
                account = _account(message)
                if account.overflow == "drop-oldest" or message is newest:
                    break
        missing = 1 + message.gap
        for later in following:
            if later.kind is Kind.NOTIFICATION and _account(later) is account:
                later.gap += missing
                break
        else:
            self.behind[account] += missing
        self.take(message)
        place = message._to.place
        if place is not None:
            with place.inbox.lock:
                account.turned_away += 1


def _account(notification: Incoming) -> Account:
    account: Account = notification.subscriptions[0]._account
    return account


def _offer_run(entry: Entry, messages: Sequence[Incoming]) -> int:
    """Post what a task has room for in one step; return how many, from the first."""
    first, given = messages[0], 0
    if first.kind is Kind.COMMAND:  # so all are: notifications come one by one
        account: Account = entry.box.client.account
        for message in messages:
            message._account = account
        place = entry.place
        if place is not None:
            given = place.inbox.offer_run(messages, account, place)
    return given


def _give(entry: Entry, item: Incoming | CommandRun) -> bool:
    if isinstance(item, CommandRun):
        return _give_run(entry, item)
    return _offer(entry, item)


def _give_run(entry: Entry, run: CommandRun) -> bool:
    """Post what a task has room for of commands kept as one; False if not for all."""
    while len(run):
        place = entry.place
        if place is None:
            return True  # as below
        account: Account = entry.box.client.account
        if not place.inbox.offer_commands(run, account, place) and (
            entry.place is place
        ):
            return False  # it has not moved: it has no room
    return True


def _offer(entry: Entry, message: Incoming) -> bool:
    """Post a message where its task is; False if that has no room, and wants to."""
    command = message.kind is Kind.COMMAND
    client = entry.box.client
    account: Account = client.account if command else message.subscriptions[0]._account
    message._account = account
    while True:
        place = entry.place
        if place is None:
            return True  # it has left, and its process says what it took
        admission = place.inbox.offer(message, place)
        if admission is Admission.GONE:
            continue  # it has moved
        if admission is Admission.DROPPED:
            message._source.box.client.was_dropped(message)
        elif admission is Admission.FULL:
            if account.overflow == "disconnect":
                client.overflowed(message)
            elif command:
                return False
            else:
                # Its notifier cannot be held back over a link.
                _turn_away(message, account)
        return True


def _turn_away(message: Incoming, account: Account) -> None:
    """Let the next notification tell that this is missing, and what it told."""
    place = message._to.place
    if place is not None:
        with place.inbox.lock:
            account.turn_away_locked(message)
