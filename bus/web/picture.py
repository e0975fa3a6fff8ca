"""`Picture` and `History`: the state of a bus as the page shows it; pure.

A picture has a view of each process: its facts, and a row for each of its tasks. It
changes by changes, which name only what is new. So the page gets one picture and then
changes, and the history keeps changes alone. The page builds the same picture by the
same rule; see `apply` in `page/page.js`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from msgspec import Struct

from bus.web.losses import Loss

__all__ = [
    "COLUMNS",
    "NOTHING",
    "Facts",
    "History",
    "Picture",
    "Round",
    "Totals",
    "View",
    "key_of",
    "percentiles",
    "totals_of",
    "view_of",
]

# Of the row of a task, in this order; see `TaskInfo` and `Counters`.
COLUMNS: Final = (
    "thread",
    "visibility",
    "commands",  # delivered to a callback
    "notifications",  # likewise, of all subscriptions
    "unread",  # of both
    "dropped",  # likewise, also before they reached the process
    "expired",
    "refused",
    "no_subscriber",
    "failures",
    "late",
    "questions",
    "subscriptions",  # for each its pattern, its unread and lost messages
    "per_s",  # commands and notifications
    "state",  # "full" if messages found no room since the last report, else ""
)
_SUMMED: Final = (
    *("commands", "notifications", "unread", "dropped", "expired", "refused"),
    *("no_subscriber", "per_s"),
)
# A thread that runs one callback for longer counts as stopped.
STUCK_S: Final = 5.0
QUEUES_MAX: Final = 200  # shown of each process

Row: TypeAlias = tuple[Any, ...]
Facts: TypeAlias = dict[str, Any]
Change: TypeAlias = dict[str, Any]  # key, facts or None, tasks


def key_of(machine: str, process: str) -> str:
    """Return the key of a process; the name of a machine has no slash."""
    return f"{machine}/{process}"


@attrs.frozen
class View:
    """A process: its facts, and the rows of its tasks by name."""

    facts: Facts
    tasks: dict[str, Row]


class Totals(Struct, kw_only=True):
    """The sums over all processes at the end of a round.

    handled, handled_per_s: callbacks that were run.
    lost: messages that were lost since the round before; see `losses.messages_in`.
    delay_us: the median and the 99th percentile of the way between two processes, in
      microseconds; None without a message.
    """

    tasks: int = 0
    handled: int = 0
    handled_per_s: float = 0.0
    unread: int = 0
    queued: int = 0
    blocked: int = 0
    lost: int = 0
    delay_us: tuple[float, float] | None = None


def percentiles(delays_us: list[float]) -> tuple[float, float] | None:
    """Return the median and the 99th percentile; None without a delay."""
    if not delays_us:
        return None
    ordered = sorted(delays_us)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


class Round(Struct, kw_only=True):
    """The changes of one second, or of one step of a recording.

    number: from 1. at_ns: its end on the wall clock.
    sends: messages seen on links: the keys and the tasks of both ends, how many, and
      how many milliseconds before the end of the round.
    """

    number: int
    at_ns: int
    changes: list[Change]
    totals: Totals
    losses: list[Loss] = []
    sends: list[tuple[str, str, str, str, int, int]] = []


class Picture:
    """The views of all processes, by `key_of`."""

    def __init__(self) -> None:
        self.views: Final[dict[str, View]] = {}

    def update(self, key: str, view: View | None) -> Change:
        """Replace a view, or remove it; return the change."""
        if view is None:
            self.views.pop(key, None)
            return {"key": key, "facts": None, "tasks": {}}
        old = self.views.get(key)
        rows = {} if old is None else old.tasks
        tasks: dict[str, Row | None] = {}
        if rows is not view.tasks:
            tasks |= {
                name: row for name, row in view.tasks.items() if rows.get(name) != row
            }
            tasks |= dict.fromkeys(rows.keys() - view.tasks.keys())
        self.views[key] = view
        return {"key": key, "facts": view.facts, "tasks": tasks}

    def apply(self, changes: Iterable[Change]) -> None:
        """Make changes, in order."""
        for change in changes:
            key, facts = change["key"], change["facts"]
            if facts is None:
                self.views.pop(key, None)
                continue
            old = self.views.get(key)
            tasks = {} if old is None else old.tasks
            for name, row in change["tasks"].items():
                if row is None:
                    tasks.pop(name, None)
                else:
                    tasks[name] = row
            self.views[key] = View(facts, tasks)

    def whole(self) -> list[Change]:
        """Return the changes that make this picture of an empty one."""
        return [
            {"key": key, "facts": view.facts, "tasks": dict(view.tasks)}
            for key, view in self.views.items()
        ]

    def totals(self) -> Totals:
        """Return the sums, without losses and delays."""
        found = Totals()
        for view in self.views.values():
            sums = view.facts["totals"]
            found.tasks += sums["tasks"]
            found.handled += sums["callbacks"]
            found.handled_per_s += sums["per_s"]
            found.unread += sums["unread"]
            found.queued += sums["queued"]
            found.blocked += sums["blocked"]
        return found


class History:
    """The last rounds, and the picture before them; one thread adds, others read.

    kept: the number of rounds. losses_kept: of losses.
    """

    def __init__(self, kept: int = 600, losses_kept: int = 2000) -> None:
        self._kept: Final = kept
        # Replaced as a whole, so that a reader gets rounds that fit their base.
        self._state: tuple[Picture, tuple[Round, ...]] = Picture(), ()
        self._losses_kept: Final = losses_kept
        self._losses: tuple[Loss, ...] = ()
        self._losses_seen = 0

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, the oldest first."""
        return self._state[1]

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses, the oldest first."""
        return self._losses

    def add(self, new: Round) -> None:
        """Add a round, whose losses get their numbers."""
        for loss in new.losses:
            self._losses_seen += 1
            loss.number = self._losses_seen
        if new.losses:
            losses = (*self._losses, *new.losses)
            self._losses = losses[-self._losses_kept :]
        base, rounds = self._state
        rounds = (*rounds, new)
        if over := rounds[: -self._kept]:
            base = _copy(base)
            for each in over:
                base.apply(each.changes)
        self._state = base, rounds[-self._kept :]

    def after(self, number: int) -> tuple[Round, ...]:
        """Return the rounds after that of a number."""
        rounds = self.rounds
        if not rounds:
            return ()
        first = rounds[0].number
        return rounds[max(0, number + 1 - first) :]

    def at(self, number: int) -> Picture:
        """Return the picture after a round; the nearest one if it is not kept."""
        base, rounds = self._state
        picture = _copy(base)
        for each in rounds:
            if each.number > number and each is not rounds[0]:
                break
            picture.apply(each.changes)
        return picture


def _copy(picture: Picture) -> Picture:
    copy = Picture()
    for key, view in picture.views.items():
        copy.views[key] = View(view.facts, dict(view.tasks))
    return copy


# The view of a report.


def view_of(
    told: Mapping[str, Any],
    old: View | None,
    full_before: Mapping[str, Any],
    before: Mapping[str, Any],
    asker: str,
) -> View:
    """Return the view of a process from its report, whole or brief.

    old: the view before; a brief report leaves its tasks as they are.
    full_before, before: the last whole report, and the last one of either kind; empty
      if there is none, and then the rates are 0.
    asker: the process of the page, whose own links and relays are left out.
    """
    passed_s = told["since_s"] - before["since_s"] if before else 0.0
    known = NOTHING if old is None else old.facts
    posted = {
        (each["machine"], each["process"]): each["counters"]["posted"]
        for each in before.get("links", ())
    }
    ran = {each["name"]: each["callbacks"] for each in before.get("threads", ())}
    # A link that is idle is the same object in each round, and takes memory once.
    same = {each["to"]: each for each in known["links"]}
    links = []
    for each in told["links"]:
        key = each["machine"], each["process"]
        if key == (told["machine"], asker):
            continue
        counters = each["counters"]
        rise = counters["posted"] - posted.get(key, counters["posted"])
        link = {
            "to": key_of(*key),
            "kind": each["kind"],
            "state": _link_state(each),
            "posted": counters["posted"],
            "per_s": _rate(rise, passed_s),
            "in_doubt": counters["in_doubt"],
        }
        last = same.get(link["to"])
        links.append(last if last == link else link)
    threads = {}
    for each in told["threads"]:
        callbacks = each["callbacks"]
        threads[each["name"]] = {
            "busy_s": each["busy_s"],
            "blocked": each["blocked"],
            "callbacks": callbacks,
            "per_s": _rate(callbacks - ran.get(each["name"], callbacks), passed_s),
            "state": _thread_state(each),
        }
    facts = known | {
        "machine": told["machine"],
        "process": told["process"],
        "pid": told["pid"],
        "role": told["role"],
        "state": "",
        "why": "",
        "threads": threads,
        "links": links,
    }
    if "relays" not in told:
        tasks = {} if old is None else old.tasks
        facts["totals"] = known["totals"] | _thread_totals(threads)
        return View(facts, tasks)
    rows = {} if old is None or not full_before else old.tasks
    between_s = told["since_s"] - full_before["since_s"] if full_before else 0.0
    tasks = {
        task["name"]: _row(thread["name"], task, rows.get(task["name"]), between_s)
        for thread in told["threads"]
        for task in thread["tasks"]
    }
    queues = [
        [
            each["name"],
            key_of(each["machine"], each["process"]),
            each["queue"],
            each["unacked"],
        ]
        for each in told["relays"]
        if (each["queue"] or each["unacked"]) and each["process"] != asker
    ]
    facts |= {
        "queues": queues[:QUEUES_MAX],
        "parked": dict(told["parked"]),
        "machines": [
            {"name": each["name"] or each["address"], "state": each["state"]}
            | {"why": each["why"]}
            for each in told.get("machines", ())
        ],
        "totals": totals_of(tasks, queued=sum(each[2] + each[3] for each in queues))
        | _thread_totals(threads),
    }
    return View(facts, tasks)


def _thread_totals(threads: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {
        each: sum(thread[each] for thread in threads.values())
        for each in ("callbacks", "per_s", "blocked")
    }


def totals_of(tasks: Mapping[str, Row], *, queued: int = 0) -> dict[str, float]:
    """Return the sums over the tasks of a process."""
    columns = zip(*tasks.values(), strict=True) if tasks else [()] * len(COLUMNS)
    by_name = dict(zip(COLUMNS, columns, strict=True))
    sums: dict[str, float] = {each: sum(by_name[each]) for each in _SUMMED}
    sums |= {"tasks": len(tasks), "queued": queued, "blocked": 0}
    return sums | {"callbacks": sums["commands"] + sums["notifications"]}


# The facts of a process that has not answered, but for its name.
NOTHING: Final[Facts] = {
    "pid": None,
    "role": "",
    "state": "",
    "why": "",
    "threads": {},
    "links": [],
    "queues": [],
    "parked": {},
    "machines": [],
    "totals": totals_of({}),
}


def _row(thread: str, task: Mapping[str, Any], old: Row | None, passed_s: float) -> Row:
    commands = task["commands"]
    taken = [each["notifications"] for each in task["subscriptions"]]
    missed = sum(each.get("missed", 0) for each in task["subscriptions"])

    def total(kind: str) -> int:
        count: int = sum([each[kind] for each in taken], commands[kind])
        return count

    handled, notified = commands["delivered"], sum(each["delivered"] for each in taken)
    dropped, refused = total("dropped") + missed, total("refused")
    known = dict(zip(COLUMNS, old, strict=True)) if old else {}
    rate, state = 0.0, ""
    if known:
        rise = handled + notified - known["commands"] - known["notifications"]
        rate = _rate(rise, passed_s)
        if dropped > known["dropped"] or refused > known["refused"]:
            state = "full"
    subscriptions = tuple(
        (each["to"], each["notifications"]["unread"], _lost(each))
        for each in task["subscriptions"]
    )
    return (
        thread,
        task["visibility"],
        handled,
        notified,
        total("unread"),
        dropped,
        total("expired"),
        refused,
        task.get("no_subscriber", 0),
        task.get("failures", 0),
        task.get("late", 0),
        task.get("questions", 0),
        subscriptions,
        rate,
        state,
    )


def _lost(subscription: Mapping[str, Any]) -> int:
    counters = subscription["notifications"]
    lost: int = counters["dropped"] + counters["refused"]
    return lost + int(subscription.get("missed", 0))


def _rate(rise: int, passed_s: float) -> float:
    # A sum falls when a subscription ends, since its figures are no longer in it.
    return round(max(0, rise) / passed_s, 1) if passed_s > 0 else 0.0


def _link_state(link: Mapping[str, Any]) -> str:
    if link["unresponsive"]:
        return "stopped"
    return "" if link["ready"] else "not ready"


def _thread_state(thread: Mapping[str, Any]) -> str:
    if thread["blocked"]:
        return "blocked"
    return "stopped" if (thread["busy_s"] or 0.0) >= STUCK_S else ""
