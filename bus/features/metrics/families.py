"""`Family`: the metrics of one name, and `values`: their values from a report.

This is the one list of the names, and it knows no client library. A report is the map
that a process gives of itself (`bus.features.watching.inspection.report`).

The number of series is bounded: by default each process has the same ones, plus one for
each other machine. With ``per_task`` it also has some for each public task, each
specification to which such a task subscribes, and each link. The names of private tasks
are in none, since most programs draw new ones at each run.

Invariants of each report (BUS-FLOW-7), for each ``kind``; the reasons are the
``ACCEPTED`` ones:
I1. accepted == delivered + returned + dropped by reason + unread;
I2. posted == taken + returned + failed + dropped + in doubt + in transit, of the
    messages for other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from bus.model.registration import Visibility
from bus.model.snapshot import MachineState

__all__ = ["ACCEPTED", "COMMON", "FAMILIES", "UP", "Family", "Report", "values"]

Report: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Iterable[tuple[tuple[str, ...], float]]

# The labels of every metric but `UP`, in front of its own ones.
COMMON: Final = ("bus", "machine", "process")

# The reasons of drops after the acceptance, with the counter of each.
ACCEPTED: Final = {"oldest": "dropped", "expired": "expired"}
_KINDS: Final = {"command": "commands", "notification": "notifications"}
_DROPS: Final = (*ACCEPTED.items(), ("refused", "refused"))
_PATHS: Final = ("shared", "beyond_share", "no_room", "not_mapped")


class Family(Struct, frozen=True):
    """The metrics of one name.

    name: without the suffix ``_total``, which each counter has when it is exposed.
    text: the line of help.
    read: returns the labels and the value of each, from a report.
    labels: the names of its labels, behind `COMMON`.
    per_task: True if the family is left out by default.
    """

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    read: Callable[[Report], Values]
    labels: tuple[str, ...] = ()
    per_task: bool = False


def values(
    told: Report, *, per_task: bool
) -> Iterator[tuple[Family, tuple[str, ...], float]]:
    """Yield all metrics of a process: family, labels with the common ones, value.

    told: its report.
    """
    process = told["bus"], told["machine"], told["process"]
    for family in FAMILIES:
        if per_task or not family.per_task:
            for labels, value in family.read(told):
                yield family, (*process, *labels), value


# Readers of a report.


def _one(read: Callable[[Report], float | None]) -> Callable[[Report], Values]:
    def values(told: Report) -> Values:
        value = read(told)
        return () if value is None else (((), value),)

    return values


def _total(counter: str) -> Callable[[Report], Values]:
    return _one(lambda told: told["totals"][counter])


def _of_kinds(counter: str) -> Callable[[Report], Values]:
    return lambda told: [
        ((kind,), told["totals"][key][counter]) for kind, key in _KINDS.items()
    ]


def _drops(told: Report) -> Values:
    totals = told["totals"]
    for kind, key in _KINDS.items():
        for reason, counter in _DROPS:
            yield (kind, reason), totals[key][counter]
    yield ("notification", "missed"), totals["missed"]


def _remote(counter: str) -> Callable[[Report], Values]:
    return _one(lambda told: told.get("relay_counters", {}).get(counter, 0))


def _outgoing(counter: str) -> Callable[[Report], Values]:
    return _one(lambda told: told.get("notifying", {}).get(counter, 0))


def _tasks(told: Report) -> Iterator[Mapping[str, Any]]:
    for thread in told["threads"]:
        yield from thread["tasks"]


def _busy_s(told: Report) -> float:
    return max((each["busy_s"] or 0.0 for each in told["threads"]), default=0.0)


def _links(told: Report) -> Values:
    for kind in ("signalling", "data"):
        yield (kind,), sum(each["kind"] == kind for each in told["links"])


def _slabs(count: str) -> Callable[[Report], Values]:
    def read(told: Report) -> float | None:
        memory = told["shared_memory"]
        return None if memory is None else sum(each[count] for each in memory["slabs"])

    return _one(read)


def _arena(field: str) -> Callable[[Report], Values]:
    def read(told: Report) -> float | None:
        memory: Mapping[str, float] | None = told["shared_memory"]
        return None if memory is None else memory[field]

    return _one(read)


def _long_messages(told: Report) -> Values:
    memory = told["shared_memory"]
    for path in _PATHS if memory is not None else ():
        yield (path,), memory["messages"][path]


def _arena_released(told: Report) -> float | None:
    memory = told["shared_memory"]
    return None if memory is None else float(memory["messages"]["released"])


def _machines(told: Report) -> Values:
    if "machines" in told:  # of a master only
        states = [each["state"] for each in told["machines"]]
        for state in MachineState:
            yield (state.value,), states.count(state.value)


def _round_trips(told: Report) -> Values:
    for each in told.get("machines", ()):
        # Two machines in a conflict have one name, and neither of them a link.
        if each["round_trip_s"] is not None and each["name"] is not None:
            yield (each["name"],), each["round_trip_s"]


def _ignored(told: Report) -> Values:
    for reason, count in told.get("ignored_announcements", {}).items():
        yield (reason,), count


# Per task.


def _public(told: Report) -> Iterator[Mapping[str, Any]]:
    for task in _tasks(told):
        if task["visibility"] == Visibility.PUBLIC.value:
            yield task


def _of_tasks(counter: str) -> Callable[[Report], Values]:
    return lambda told: [
        ((task["name"],), task["commands"][counter]) for task in _public(told)
    ]


def _task_drops(told: Report) -> Values:
    for task in _public(told):
        for reason, counter in _DROPS:
            yield (task["name"], reason), task["commands"][counter]


def _of_subscriptions(counter: str) -> Callable[[Report], Values]:
    def read(told: Report) -> Values:
        # A task may have several subscriptions to one specification.
        sums: dict[tuple[str, ...], float] = {}
        for task in _public(told):
            for each in task["subscriptions"]:
                labels = task["name"], each["to"]
                counters = {**each["notifications"], "missed": each["missed"]}
                sums[labels] = sums.get(labels, 0) + counters[counter]
        return sums.items()

    return read


def _subscription_drops(told: Report) -> Values:
    for reason, counter in (*_DROPS, ("missed", "missed")):
        for labels, value in _of_subscriptions(counter)(told):
            yield (*labels, reason), value


def _of_links(counter: str) -> Callable[[Report], Values]:
    return lambda told: [
        ((each["machine"], each["process"]), each["counters"][counter])
        for each in told["links"]
    ]


def _unresponsive(told: Report) -> Values:
    for each in told["links"]:
        yield (each["machine"], each["process"]), each["unresponsive"]


# The families, in the order in which they are exposed.

UP: Final = Family(
    "bus_process_up",
    "gauge",
    "1 if the process answered this scrape, 0 if its master knows it and it did not.",
    _one(lambda _: 1),
)

_PEER: Final = ("peer_machine", "peer_process")

FAMILIES: Final = (
    UP,
    Family(
        "bus_process_is_master",
        "gauge",
        "1 in the master of its machine, 0 in all other processes.",
        _one(lambda told: told["role"] == "master"),
    ),
    Family("bus_threads", "gauge", "Threads of the bus in the process.",
           _one(lambda told: len(told["threads"]))),
    Family("bus_tasks", "gauge", "Registered tasks of the process.",
           _one(lambda told: sum(1 for _ in _tasks(told)))),
    Family(
        "bus_busy_seconds",
        "gauge",
        "Age of the oldest callback that is running in the process; 0 without one.",
        _one(_busy_s),
    ),
    Family(
        "bus_blocked_senders",
        "gauge",
        "Senders that wait for room at a task of the process.",
        _one(lambda told: sum(each["blocked"] for each in told["threads"])),
    ),
    # Messages for the tasks of the process.
    Family("bus_messages_accepted", "counter",
           "Messages put on the account of a receiver in the process.",
           _of_kinds("accepted"), ("kind",)),
    Family("bus_messages_delivered", "counter",
           "Messages handed to a callback.",
           _of_kinds("delivered"), ("kind",)),
    Family("bus_messages_returned", "counter",
           "Messages sent elsewhere, since the receiver deregistered or unsubscribed.",
           _of_kinds("returned"), ("kind",)),
    Family(
        "bus_messages_dropped",
        "counter",
        "Messages that no callback got: the oldest for newer ones, expired, refused"
        " without acceptance, or missed before they reached the process.",
        _drops,
        ("kind", "reason"),
    ),
    Family("bus_unread_messages", "gauge",
           "Messages that wait for a callback.", _of_kinds("unread"), ("kind",)),
    Family("bus_unread_bytes", "gauge",
           "Size of the messages that wait for a callback.",
           _of_kinds("unread_bytes"), ("kind",)),
    Family("bus_callback_failures", "counter",
           "Callbacks that raised.", _total("failures")),
    Family("bus_open_questions", "gauge", "Commands that wait for an answer.",
           _one(lambda told: sum(each["questions"] for each in _tasks(told)))),
    Family("bus_late_answers", "counter",
           "Answers that arrived after their question had closed.", _total("late")),
    Family("bus_unasked_answers", "counter",
           "Answers that no task had requested.", _total("unasked")),
    Family("bus_undelivered_commands", "counter",
           "Undeliverable commands of the process that requested no answer.",
           _total("undelivered")),
    Family("bus_unheard_notifications", "counter",
           "Notifications that had no subscriber when they were sent.",
           _total("no_subscriber")),
    Family("bus_parked_messages", "gauge",
           "Commands that wait for a name that no task has.",
           _one(lambda told: sum(told["parked"].values()))),
    Family("bus_unresolved_messages", "counter",
           "Commands for a name that no task registered in time.",
           _one(lambda told: told["gave_up"])),
    # Messages for tasks of other processes.
    Family("bus_remote_messages_posted", "counter",
           "Messages of all kinds for tasks of other processes.", _remote("posted")),
    Family("bus_remote_messages_taken", "counter",
           "Those among them that the other process has taken.", _remote("taken")),
    Family("bus_remote_messages_returned", "counter",
           "Those among them that were sent elsewhere.", _remote("returned")),
    Family("bus_remote_messages_failed", "counter",
           "Those among them that expired, found no room or had no addressee.",
           _remote("failed")),
    Family("bus_remote_messages_dropped", "counter",
           "Those among them that were dropped for newer ones, or were unwanted.",
           _remote("dropped")),
    Family("bus_remote_messages_in_doubt", "counter",
           "Those among them whose process was lost before it acknowledged them.",
           _remote("in_doubt")),
    Family("bus_remote_messages_in_transit", "gauge",
           "Those among them that wait for a link, or are in transit.",
           _remote("in_transit")),
    Family("bus_outgoing_notifications_accepted", "counter",
           "Notifications for other processes, each counted once for all of them.",
           _outgoing("accepted")),
    Family("bus_outgoing_notifications_delivered", "counter",
           "Those among them that have reached the queues of the links.",
           _outgoing("delivered")),
    Family("bus_outgoing_notifications_dropped", "counter",
           "Those among them that were dropped for newer ones.", _outgoing("dropped")),
    Family("bus_outgoing_notifications_waiting", "gauge",
           "Those among them that have not reached the queues of the links.",
           _outgoing("unread")),
    Family("bus_links", "gauge", "Open links with other processes.",
           _links, ("kind",)),
    Family("bus_links_unresponsive", "gauge",
           "Open links with processes that do not respond.",
           _one(lambda told: sum(each["unresponsive"] for each in told["links"]))),
    # Shared memory.
    Family("bus_arena_bytes", "gauge", "Size of the open slabs of the arena.",
           _arena("size")),
    Family("bus_arena_limit_bytes", "gauge", "Limit of the arena.",
           _arena("bytes_max")),
    Family("bus_arena_buffers", "gauge", "Buffers of the arena.", _slabs("buffers")),
    Family("bus_arena_buffers_used", "gauge", "Buffers that hold a message.",
           _slabs("used")),
    Family("bus_arena_buffers_abandoned", "gauge",
           "Messages that recipients of lost links may still read.",
           _slabs("abandoned")),
    Family("bus_arena_leases", "gauge", "Messages that recipients hold.",
           _slabs("leases")),
    Family("bus_arena_messages", "counter",
           "Long messages: shared, or sent by the link for the reason given.",
           _long_messages, ("path",)),
    Family("bus_arena_messages_released", "counter",
           "Shared messages that their recipient does not hold any more.",
           _one(_arena_released)),
    # Other machines; a master alone reports them.
    Family("bus_machines", "gauge", "Other machines, by the state of their link.",
           _machines, ("state",)),
    Family("bus_machine_round_trip_seconds", "gauge",
           "Time from the last PING to the master of another machine to its answer.",
           _round_trips, ("peer_machine",)),
    Family("bus_announcements_ignored", "counter",
           "Ignored announcements of machines.", _ignored, ("reason",)),
    # On request.
    Family("bus_task_commands_accepted", "counter",
           "Commands put on the account of a public task.",
           _of_tasks("accepted"), ("task",), per_task=True),
    Family("bus_task_commands_delivered", "counter",
           "Commands handed to the callback of a public task.",
           _of_tasks("delivered"), ("task",), per_task=True),
    Family("bus_task_commands_returned", "counter",
           "Commands sent elsewhere, since the task deregistered.",
           _of_tasks("returned"), ("task",), per_task=True),
    Family("bus_task_commands_dropped", "counter",
           "Commands to a public task that its callback did not get.",
           _task_drops, ("task", "reason"), per_task=True),
    Family("bus_task_unread_commands", "gauge",
           "Commands that wait for the callback of a public task.",
           _of_tasks("unread"), ("task",), per_task=True),
    Family("bus_subscription_notifications_accepted", "counter",
           "Notifications put on the account of a subscription.",
           _of_subscriptions("accepted"), ("task", "pattern"), per_task=True),
    Family("bus_subscription_notifications_delivered", "counter",
           "Notifications handed to the callback of a subscription.",
           _of_subscriptions("delivered"), ("task", "pattern"), per_task=True),
    Family("bus_subscription_notifications_returned", "counter",
           "Notifications of a subscription that was cancelled meanwhile.",
           _of_subscriptions("returned"), ("task", "pattern"), per_task=True),
    Family("bus_subscription_notifications_dropped", "counter",
           "Notifications for a subscription that its callback did not get.",
           _subscription_drops, ("task", "pattern", "reason"), per_task=True),
    Family("bus_subscription_unread_notifications", "gauge",
           "Notifications that wait for the callback of a subscription.",
           _of_subscriptions("unread"), ("task", "pattern"), per_task=True),
    Family("bus_link_messages_posted", "counter",
           "Messages for the tasks of one other process.",
           _of_links("posted"), _PEER, per_task=True),
    Family("bus_link_messages_taken", "counter",
           "Those among them that the other process has taken.",
           _of_links("taken"), _PEER, per_task=True),
    Family("bus_link_messages_in_doubt", "counter",
           "Those among them that may or may not have been taken.",
           _of_links("in_doubt"), _PEER, per_task=True),
    Family("bus_link_unresponsive", "gauge",
           "1 if the other process does not respond.",
           _unresponsive, _PEER, per_task=True),
)  # fmt: skip
