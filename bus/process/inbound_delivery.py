"""`InboundDelivery`: delivers messages of other processes to tasks of this one.

Messages for a task without room are held back. Since they are not taken, the window of
their relay stays closed, and a fast sender has to wait at its end (BUS-FLOW-2).
Notifications have no such window. A task may have as many of them held back as it may
have unread; any excess is dropped as each subscription demands (BUS-FLOW-3).

Any thread may execute the actions, even the thread that hosts the task. If it put a
message directly into the mailbox, that message would overtake those in the inbox. So
all remote messages go through the inbox (BUS-MSG-15).
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from typing import TYPE_CHECKING, Final, cast

from bus.kernel.tasks.runs import InboundRun
from bus.model.events import BusReason
from bus.model.message import Incoming, Kind
from bus.process.account import Admission

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.kernel.streams.incoming_streams import Horizons
    from bus.kernel.tasks.actions import Answer
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.account import Account

__all__ = ["InboundDelivery"]

# Policies of receivers whose senders wait or get an error: messages without room are
# held back, of any kind.
_WAITING: Final = frozenset({"block", "error"})


class InboundDelivery:
    """The messages held back, by task. Actions are serial, so there is no lock.

    Args:
        messages_max, bytes_max: bound of the notifications held back for one task.
        horizons: of the streams to this process. Once they have failed, messages are
            dropped: after a restart they would be accepted again (AMO-20).

    Invariant: a task is given no message while an older one is held back.
    """

    __slots__ = ("_bytes_max", "_held", "_horizons", "_messages_max", "holds")

    def __init__(
        self, *, messages_max: int, bytes_max: int, horizons: Horizons | None = None
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self._horizons: Final = horizons
        self._held: Final[dict[Entry, _Held]] = {}
        # Returns True if messages are held back for a task; for any thread. A call in
        # C: it is made for each message.
        self.holds: Final = self._held.__contains__

    def __len__(self) -> int:
        """Return the number of messages held back."""
        return sum([len(held) for held in self._held.values()])

    def deliver(self, entry: Entry, messages: list[Incoming | InboundRun]) -> None:
        """Give messages to a task, or hold them back, and remove them from the list.

        Each is removed before anything is done for it, so that an interrupt loses one
        at most, and a second call with the rest delivers none twice. After a
        `MemoryError`, for which nothing was done, the message is left in the list.
        """
        if self._horizons is not None and self._horizons.failed:
            return
        for kind, some in groupby(messages.copy(), type):
            if kind is Incoming:
                self._deliver(entry, list(cast("Iterator[Incoming]", some)), messages)
                continue
            for run in cast("Iterator[InboundRun]", some):
                self._deliver_run(entry, run, messages)

    def _deliver_run(
        self, entry: Entry, run: InboundRun, left: list[Incoming | InboundRun]
    ) -> None:
        """Deliver as `deliver`; left: begins with the run."""
        held = self._held.get(entry)
        notifies = run.kind is Kind.NOTIFICATION
        if held is None and notifies:
            _give_notifications(entry, run)
        elif held is None and _give_run(entry, run):
            pass
        elif notifies or entry.mailbox.client.account.overflow not in _WAITING:
            rest = run.rest()
            left[:1] = rest  # no call since `rest`: an interrupt loses none
            if rest:
                self._deliver(entry, rest, left)  # the policy decides on each command
            return
        else:
            if held is None:
                held = self._held[entry] = _Held()
            items = held.items
            # No call between these lines: an interrupt finds both changes or none.
            items += (run,)
            del left[0]
            self.resume(entry)  # for the reason in `_deliver`
            return
        del left[0]

    def _deliver(
        self,
        entry: Entry,
        messages: Sequence[Incoming],
        left: list[Incoming | InboundRun],
    ) -> None:
        """Deliver as `deliver`; left: begins with these messages."""
        held = self._held.get(entry)
        given = 0 if held is not None else _offer_run(entry, messages, left)
        for message in messages[given:]:
            # Before the delivery: later the gap may include drops in this process.
            gap = message.gap
            del left[0]
            try:
                if held is not None:
                    self._hold(held, message)
                elif not _offer(entry, message):
                    held = self._held[entry] = _Held()
                    self._hold(held, message)
            except MemoryError:
                left.insert(0, message)
                raise
            if gap:
                _account(message).missed += gap
        if held is not None:
            # A task that read meanwhile did not know that a message is held back.
            self.resume(entry)

    def resume(self, entry: Entry) -> None:
        """Give a task the messages it has room for; drop all of them if it has left."""
        held = self._held.get(entry)
        if held is None:
            return
        while held.items and _give(entry, held.items[0]):
            held.take(held.items[0])
        if not held.items:
            del self._held[entry]
            if held.behind and (host := entry.host) is not None:
                with host.inbox.lock:
                    for account, count in held.behind.items():
                        account.miss_newest_locked(count)

    def _hold(self, held: _Held, message: Incoming) -> None:
        held.put(message)
        while held.notifications > self._messages_max or (
            held.bytes > self._bytes_max and held.notifications > 1
        ):
            held.drop(message)

    def answer(self, answer: Answer) -> None:
        """Give an answer to its task, as `Router.deliver_answer` does."""
        if self._horizons is not None and self._horizons.failed:
            return
        entry: Entry = answer._to
        host = entry.host
        if (
            host is not None
            and host.idle
            and entry.mailbox.client.try_deliver_directly(answer)
        ):
            return
        while (host := entry.host) is not None:
            if host.inbox.offer(answer, host) is not Admission.GONE:
                return
        if answer._trace is not None:
            answer._trace.record_discarded(BusReason.UNWANTED)


class _Held:
    """The messages held back for one task, with the size of the notifications.

    behind: number of notifications dropped after the last one held, by account, with
      the gaps that these carried.
    """

    __slots__ = ("behind", "bytes", "items", "notifications")

    def __init__(self) -> None:
        self.items: Final[deque[Incoming | InboundRun]] = deque()
        self.behind: Final[Counter[Account]] = Counter()
        self.notifications: int = 0
        self.bytes: int = 0

    def __len__(self) -> int:
        runs = [each for each in self.items if isinstance(each, InboundRun)]
        return len(self.items) - len(runs) + sum(map(len, runs))

    def put(self, message: Incoming) -> None:
        self.items.append(message)
        if message.kind is Kind.NOTIFICATION:
            self.notifications += 1
            self.bytes += message._size
            message.gap += self.behind.pop(_account(message), 0)

    def take(self, message: Incoming | InboundRun) -> None:
        self.items.remove(message)  # usually the first
        if isinstance(message, Incoming) and message.kind is Kind.NOTIFICATION:
            self.notifications -= 1
            self.bytes -= message._size

    def drop(self, newest: Incoming) -> None:
        """Drop the oldest notification under `drop-oldest`, else the newest one."""
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
        host = message._to.host
        if host is not None:
            with host.inbox.lock:
                account.refused += 1


def _account(notification: Incoming) -> Account:
    account: Account = notification.subscriptions[0]._account
    return account


def _offer_run(
    entry: Entry, messages: Sequence[Incoming], left: list[Incoming | InboundRun]
) -> int:
    """Post as many messages as there is room for, from the first; return the number.

    left: begins with these messages; those posted are removed.
    """
    first, given = messages[0], 0
    if first.kind is Kind.COMMAND:
        account: Account = entry.mailbox.client.account
        for message in messages:
            message._account = account
        host = entry.host
        if host is not None:
            given = host.inbox.offer_run(messages, account, host, left)
    return given


def _give(entry: Entry, item: Incoming | InboundRun) -> bool:
    if isinstance(item, InboundRun):
        return _give_run(entry, item)
    return _offer(entry, item)


def _give_run(entry: Entry, run: InboundRun) -> bool:
    """Post the commands of a run that have room; return False if some are left."""
    while len(run):
        host = entry.host
        if host is None:
            return True  # as in `_offer`
        account: Account = entry.mailbox.client.account
        if not host.inbox.offer_inbound_run(run, account, host) and (
            entry.host is host
        ):
            return False  # the task has not moved, so it has no room
    return True


def _give_notifications(entry: Entry, run: InboundRun) -> None:
    """Post the notifications of a run; the policy decides on those without room."""
    account: Account = run.subscriptions[0]._account
    while len(run):
        host = entry.host
        if host is None:
            return  # as in `_offer`
        if not host.inbox.offer_inbound_run(run, account, host):
            # The task has moved; or the first one has no room, or reports a gap.
            _offer(entry, run.shift())


def _offer(entry: Entry, message: Incoming) -> bool:
    """Post a message at its task's host; return False to hold the message back."""
    command = message.kind is Kind.COMMAND
    client = entry.mailbox.client
    account: Account = client.account if command else message.subscriptions[0]._account
    message._account = account
    while True:
        host = entry.host
        if host is None:
            return True  # the task has left; its process reports the messages it took
        admission = host.inbox.offer(message, host)
        if admission is Admission.GONE:
            continue  # the task has moved
        if admission is Admission.DROPPED:
            message._source.mailbox.client.on_dropped(message)
        elif admission is Admission.FULL:
            if account.overflow == "disconnect":
                client.on_overflow(message)
            elif command:
                return False
            else:
                # A notifier of another process is never made to wait (BUS-FLOW-6).
                _refuse(message, account)
        return True


def _refuse(message: Incoming, account: Account) -> None:
    """Add the message, and its gap, to the gap of the next notification."""
    host = message._to.host
    if host is not None:
        with host.inbox.lock:
            account.refuse_locked(message)
