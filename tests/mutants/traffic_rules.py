"""Mutants of the small checker: rules of the bus, and what a death explains."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["TRAFFIC_RULES"]

_BUS = "bus/journal/bus_traffic.py"
_DEATHS = "bus/journal/deaths.py"
_FLOW = "bus/journal/flow.py"

TRAFFIC_RULES: tuple[Mutant, ...] = (
    Mutant(
        "T1",
        "a second delivery is let pass",
        ("B1",),
        (
            Edit(
                _BUS, "if len(message.delivered) > 1:", "if len(message.delivered) > 2:"
            ),
        ),
    ),
    Mutant(
        "T2",
        "one place may put a message on a link twice",
        ("B2",),
        (
            Edit(
                _BUS,
                "return min(len(hops), len(journals)) < len(crossings)",
                "return min(len(hops), len(crossings)) < len(crossings)",
            ),
        ),
    ),
    Mutant(
        "T3",
        "a message may go on under any hop",
        ("B2",),
        (Edit(_BUS, "        and went.hop <= came.hop\n", "        and False\n"),),
    ),
    Mutant(
        "T4",
        "what nobody put on a link may be read from one",
        ("B2",),
        (Edit(_BUS, "    if into - out:\n", "    if out and into - out:\n"),),
    ),
    Mutant(
        "T5",
        "a reason does not explain what was not read from a link",
        ("B2",),
        (
            Edit(
                _BUS,
                "    if message.explained or not out - into:\n",
                "    if not out - into:\n",
            ),
        ),
    ),
    Mutant(
        "T6",
        "a reason does not explain what was not delivered",
        ("B3",),
        (
            Edit(
                _BUS,
                "message.delivered or message.explained:",
                "message.delivered:",
            ),
        ),
    ),
    Mutant(
        "T7",
        "a death explains no loss",
        ("B3",),
        (
            Edit(
                _BUS,
                "None if died else self._loss_case(",
                "self._loss_case(",
            ),
        ),
    ),
    Mutant(
        "T8",
        "who leaves need not account for what it has not read",
        ("B3",),
        (
            Edit(
                _BUS,
                "        if destination in self._left:\n",
                "        if destination in ():\n",
            ),
        ),
    ),
    Mutant(
        "T9",
        "a notification must not overtake a command",
        ("B5",),
        (
            Edit(
                _BUS,
                "_SORT: Final = int(Flag.MULTICAST | Flag.ANSWER)",
                "_SORT: Final = int(Flag.ANSWER)",
            ),
        ),
    ),
    Mutant(
        "T10",
        "answers are held to the order of their questions",
        ("B5",),
        (
            Edit(
                _BUS,
                "            if not sort & Flag.ANSWER:\n                self._in_turn",
                "            if True:\n                self._in_turn",
            ),
        ),
    ),
    Mutant(
        "T11",
        "a process of another machine died",
        ("J1",),
        (
            Edit(
                _DEATHS,
                "(death.pid, death.machine) == (one.pid, one.machine)",
                "death.pid == one.pid",
            ),
        ),
    ),
    Mutant(
        "T12",
        "a process goes on after its death",
        ("J1",),
        (
            Edit(
                _DEATHS,
                "            and one.last_mono <= death.mono\n",
                "",
            ),
        ),
    ),
    Mutant(
        "T13",
        "who was given up is dead",
        ("J1",),
        (
            Edit(
                _DEATHS, "if record.reason == BusReason.DIED:", "if record.reason > 0:"
            ),
        ),
    ),
    Mutant(
        "T14",
        "a dead sender may have sent anything",
        ("Q4",),
        (Edit(_FLOW, "and seq != under_way:", "and under_way is None:"),),
    ),
    Mutant(
        "T15",
        "what a dead sender had not got out is missed",
        ("Q5",),
        (
            Edit(
                _FLOW,
                "        elif end.receiver_left and not end.sender_died:\n",
                "        elif end.receiver_left:\n",
            ),
        ),
    ),
    Mutant(
        "T16",
        "a death explains a channel that nobody made",
        ("Q1",),
        (
            Edit(
                "bus/journal/traffic.py",
                "if any_died and len(accepts) + len(connects) == 1:",
                "if any_died and len(accepts) + len(connects) <= 1:",
            ),
        ),
    ),
    Mutant(
        "T17",
        "a message that was delivered at all is not checked",
        ("B1",),
        (
            Edit(
                _BUS,
                "once = kinds.count(_DELIVER) == 1",
                "once = kinds.count(_DELIVER) >= 1",
            ),
        ),
    ),
    Mutant(
        "T18",
        "a message that was delivered and only read from a link is not checked",
        ("B2",),
        (
            Edit(
                _BUS,
                "if once and _OUT not in kinds and _IN not in kinds:",
                "if once and _OUT not in kinds:",
            ),
        ),
    ),
    Mutant(
        "T19",
        "a message that was delivered and only put on a link is not checked",
        ("B2",),
        (
            Edit(
                _BUS,
                "if once and _OUT not in kinds and _IN not in kinds:",
                "if once and _IN not in kinds:",
            ),
        ),
    ),
    Mutant(
        "T20",
        "a journal that only took a message out holds no record of it",
        ("B3",),
        (
            Edit(
                _BUS,
                "if kind != Kind.EXTRACT or steps[_LAST_JOURNAL] != step[_LAST_JOURNAL]:",
                "if kind != Kind.EXTRACT:",
            ),
        ),
    ),
)
