"""`Loss`: one row of the page about messages that no callback got, or got late.

A live bus counts such messages: `from_counters` compares two reports of a process. A
recording has each of them: `from_reason` explains its reason. Both take their words
from the tables of this module, so that a rule is explained in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.model.events import BusReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "Loss",
    "from_counters",
    "from_reason",
    "messages_in",
    "process_lost",
    "process_silent",
]


class Loss(Struct, omit_defaults=True):
    """A row.

    at_ns: its time on the wall clock; of a live bus, that of the report.
    kind: one word, by which the page filters.
    count: the number of messages.
    what: which messages. process, task: where; `task` is "" for a process.
    rule: the clause that the bus obeyed. why: the rule in words. do: the remedy.
    message: of a recording, what identifies the message; see `Recording.way`.
    number: given by the history, from 1.
    """

    at_ns: int
    kind: str
    count: int
    what: str
    process: str
    task: str
    rule: str
    why: str
    do: str
    message: str = ""
    number: int = 0


_Words = tuple[str, str, str]  # the rule, the rule in words, the remedy

# By the counter of a task's commands.
_OF_COMMANDS: Final[dict[str, _Words]] = {
    "dropped": (
        "BUS-FLOW-6",
        "the task had no room; its policy drop-oldest dropped the oldest commands",
        "raise capacity of the task, or shorten its callback",
    ),
    "refused": (
        "BUS-FLOW-6",
        "the task had no room; its policy refused these commands, and each sender that"
        " waits for an answer got an error",
        "raise capacity of the task, send less often, or register it with"
        " overflow='block'",
    ),
    "expired": (
        "BUS-FLOW-5",
        "the time limit of these commands had passed when their turn came",
        "raise timeout of the sender, or shorten the callbacks of this thread",
    ),
}
# By the counter of a subscription's notifications.
_OF_NOTIFICATIONS: Final[dict[str, _Words]] = {
    "dropped": (
        "BUS-FLOW-3",
        "the subscriber did not keep up; the oldest notifications were dropped, and the"
        " next one carries their number",
        "raise capacity of the subscription, or shorten its callback",
    ),
    "refused": (
        "BUS-FLOW-6",
        "the subscription had no room, and its policy keeps the older notifications",
        "raise capacity of the subscription, or choose drop-oldest",
    ),
    "expired": (
        "BUS-FLOW-5",
        "the time limit of these notifications had passed when their turn came",
        "raise timeout of the notifier, or shorten the callbacks of this thread",
    ),
}
_MISSED: Final = (
    "BUS-FLOW-3",
    "the process of the notifier dropped them before the link",
    "notify less often, or raise the bounds of the relay in BusConfig",
)
# By the counter of a task itself: the kind, the noun, the rule. Its `undelivered` is
# left out: the receivers, or their links, count the same commands.
_OF_TASK: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "no_subscriber": (
        "unheard",
        "notifications of {}",
        "BUS-FLOW-8",
        "the process of the notifier knew no subscriber",
        "subscribe first: subscribe(wait=True), or task.wait_for_subscribers()",
    ),
    "late": (
        "late",
        "answers to {}",
        "BUS-FLOW-5",
        "they arrived after the time of their question",
        "raise timeout of the question, or shorten the callback that answers",
    ),
    "failures": (
        "failed",
        "callbacks of {}",
        "BUS-MSG-13",
        "they raised; the log of the process has the exceptions",
        "read the log of the process, and mend the callback",
    ),
}
# By the counter of a relay, or of a link.
_ON_LINKS: Final[dict[str, tuple[str, str, str, str]]] = {
    "dropped": (
        "dropped",
        "BUS-FLOW-6",
        "the queue to the other process was full, or no task wanted them any more",
        "send less often, or raise the capacity of the receiver",
    ),
    "failed": (
        "refused",
        "BUS-FLOW-5",
        "they expired, found no room, or had no addressee",
        "look at the sender: it got the reason as an error",
    ),
    "in_doubt": (
        "in doubt",
        "BUS-MOVE-8",
        "the link was lost before the receiver acknowledged them; it may have them",
        "let the receiver recognise a repeated command before the sender repeats it",
    ),
}
_UNRESOLVED: Final = (
    "BUS-FLOW-5",
    "no task registered the name in time",
    "check the name, start the process that registers it, or wait_for it",
)

# By the reason in a record: the kind, the rule in words, the remedy.
_REASONS: Final[dict[int, tuple[str, str, str, str]]] = {
    BusReason.UNRESOLVED: ("unresolved", *_UNRESOLVED),
    BusReason.UNREACHABLE: (
        "refused",
        "BUS-FLOW-5",
        "no link to its process could be opened",
        "start the process, or check the network with bus doctor --network",
    ),
    BusReason.ADDRESSEE_GONE: (
        "refused",
        "BUS-FLOW-5",
        "the addressee left before it took the message",
        "drain the task before it deregisters, or register it again",
    ),
    BusReason.PROCESS_LOST: ("in doubt", *_ON_LINKS["in_doubt"][1:]),
    BusReason.EXPIRED: ("expired", *_OF_COMMANDS["expired"]),
    BusReason.FULL: ("refused", *_OF_COMMANDS["refused"]),
    BusReason.OLDEST: ("dropped", *_OF_COMMANDS["dropped"]),
    BusReason.NEWEST: ("dropped", *_OF_NOTIFICATIONS["refused"]),
    BusReason.CANCELLED: (
        "cancelled",
        "BUS-FLOW-5",
        "its sender cancelled it, or left",
        "nothing, if the sender meant to",
    ),
    BusReason.UNWANTED: (
        "late",
        "BUS-FLOW-5",
        "no task waited for this answer any more, or the subscription had ended",
        "raise timeout of the question, or shorten the callback that answers",
    ),
    BusReason.DENIED: (
        "refused",
        "BUS-SEC-1",
        "the access list forbids it",
        "change access of BusConfig",
    ),
    BusReason.TOO_LONG: (
        "refused",
        "BUS-MSG-16",
        "it is longer than the receiving process accepts",
        "raise message_bytes_max of the receiver, or send parts",
    ),
}
_UNKNOWN: Final = ("unknown", "", "for a reason that this version does not know", "")

# The kinds of messages that their receiver was to get, and may not have got. The others
# are late, without a receiver, cancelled, or no messages.
_LOST: Final = {"dropped", "refused", "expired", "in doubt", "unresolved", "unknown"}


def from_counters(
    now: Mapping[str, Any],
    before: Mapping[str, Any],
    at_ns: int,
    process: str,
    asker: str = "",
) -> Iterator[Loss]:
    """Yield the losses between two reports of one process.

    now, before: as an inspector answers (`bus.features.watching.inspection.report`).
    asker: the process of the page, whose own messages are left out.
    """

    def loss(kind: str, count: int, what: str, task: str, words: _Words) -> Loss:
        return Loss(at_ns, kind, count, what, process, task, *words)

    tasks_before = _tasks(before)
    for name, task in _tasks(now).items():
        last = tasks_before.get(name, {})
        for kind, words in _OF_COMMANDS.items():
            if count := _risen(task["commands"], last.get("commands", {}), kind):
                yield loss(kind, count, f"commands for {name}", name, words)
        for counter, (kind, noun, rule, why, do) in _OF_TASK.items():
            if count := _risen(task, last, counter):
                yield loss(kind, count, noun.format(name), name, (rule, why, do))
        yield from (
            loss(kind, count, f"notifications of {to} for {name}", name, words)
            for to, kind, count, words in _of_subscriptions(task, last)
        )
    if count := _risen(now, before, "gave_up"):
        what = "commands for a name that no task has"
        yield loss("unresolved", count, what, "", _UNRESOLVED)
    named = _by_peer(now, "relays"), _by_peer(before, "relays")
    links = _by_peer(now, "links"), _by_peer(before, "links")
    for counter, (kind, *rest) in _ON_LINKS.items():
        words = rest[0], rest[1], rest[2]
        to_tasks: dict[tuple[str, str], int] = {}
        for key, counters in named[0].items():
            if count := _risen(counters, named[1].get(key, {}), counter):
                to_tasks[key[:2]] = to_tasks.get(key[:2], 0) + count
                what = f"messages for {key[2]} of {key[1]}"
                yield loss(kind, count, what, key[2], words)
        on_links = 0
        # A link also counts notifications, and messages for tasks that have left.
        for key, counters in links[0].items():
            count = _risen(counters, links[1].get(key, {}), counter)
            on_links += count
            if (count := count - to_tasks.get(key[:2], 0)) > 0 and key[1] != asker:
                yield loss(kind, count, f"messages for {key[1]}", "", words)
        # The links and relays of a lost process are gone; the sum has their messages.
        total = now.get("relay_counters", {}), before.get("relay_counters", {})
        if (count := _risen(*total, counter) - on_links) > 0:
            yield loss(kind, count, "messages for a process that has left", "", words)


def messages_in(losses: Iterable[Loss]) -> int:
    """Return how many messages were lost."""
    return sum(each.count for each in losses if each.kind in _LOST)


def from_reason(number: int) -> tuple[str, str, str, str]:
    """Return the kind of a loss, its clause, its reason and its remedy."""
    return _REASONS.get(number, _UNKNOWN)


def process_lost(process: str, at_ns: int) -> Loss:
    """Return the row about a process that ended without a farewell."""
    return Loss(
        at_ns,
        "lost",
        1,
        "process",
        process,
        "",
        "BUS-DEREG-9",
        "it ended without a farewell, or the network to it was cut",
        "read its log; messages on the way to it are in doubt",
    )


def process_silent(process: str, at_ns: int, why: str) -> Loss:
    """Return the row about a process that does not answer."""
    return Loss(
        at_ns,
        "stopped",
        1,
        "process",
        process,
        "",
        "",
        why,
        "see whether it is stopped, swapped out, or busy in code that holds the"
        " interpreter lock",
    )


def _tasks(told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        task["name"]: task
        for thread in told.get("threads", ())
        for task in thread["tasks"]
    }


def _of_subscriptions(
    task: Mapping[str, Any], last: Mapping[str, Any]
) -> Iterator[tuple[str, str, int, _Words]]:
    """Yield the pattern, the kind, the count and the words of each loss."""
    before = last.get("subscriptions", ())
    for number, each in enumerate(task["subscriptions"]):
        # They are in order of creation; one that has ended moves the later ones up.
        older: Mapping[str, Any] = next(
            (one for one in before[number:] if one["to"] == each["to"]), {}
        )
        counters, old = each["notifications"], older.get("notifications", {})
        for kind, words in _OF_NOTIFICATIONS.items():
            if count := _risen(counters, old, kind):
                yield each["to"], kind, count, words
        if count := _risen(each, older, "missed"):
            yield each["to"], "dropped", count, _MISSED


def _by_peer(
    told: Mapping[str, Any], kind: str
) -> dict[tuple[str, str, str], Mapping[str, int]]:
    return {
        (each["machine"], each["process"], each.get("name", "")): each["counters"]
        for each in told.get(kind, ())
    }


def _risen(now: Mapping[str, Any], before: Mapping[str, Any], counter: str) -> int:
    """Return by how much a counter has risen; an earlier version may lack it."""
    risen: int = now.get(counter, 0) - before.get(counter, 0)
    return max(0, risen)
