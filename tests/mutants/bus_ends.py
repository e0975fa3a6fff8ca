"""Mutants of order, ends and bounds of what goes between processes (BUS, AMO)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_ENDS"]

BUS_ENDS: tuple[Mutant, ...] = (
    Mutant(
        "N33",
        "a notification overtakes commands that wait for a window",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/core/peer.py",
                "            if notified == self.waiting[parcel.relay]:\n",
                "            if notified:\n",
            ),
        ),
    ),
    Mutant(
        "N34",
        "whoever lies behind what has to wait, waits too",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/core/relay.py",
                "                at += 1\n                continue\n",
                "                break\n",
            ),
        ),
    ),
    Mutant(
        "N35",
        "a task that left is another one with each message that it still sends",
        ("BUS-RELAY-3",),
        (
            Edit(
                "bus/core/peer.py",
                "        if task.relay in self._departing:\n            return task.relay\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N36",
        "a link is kept for tasks that have left",
        ("BUS-DEREG-5", "BUS-DEREG-10"),
        (
            Edit(
                "bus/core/relay.py",
                "        self.users.discard(task)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N37",
        "a link is closed though the other side needs it",
        ("BUS-DEREG-5",),
        (
            Edit(
                "bus/core/parting.py",
                "        if peer.joined or peer.busy or used or self._listening.hears(peer):\n",
                "        if peer.joined or peer.busy:\n",
            ),
        ),
    ),
    Mutant(
        "N38",
        "relays of all tasks are there only for those who came after the slave joined",
        ("BUS-INIT-13",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "            self._introduce(self.directory.own())\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N39",
        "who is refused is not told",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/finder.py",
                "            Fail(each, error) for each in self._manager.parked.take(name)\n",
                "            Fail(each, error) for each in self._manager.parked.take(name)[:0]\n",
            ),
        ),
    ),
    Mutant(
        "N40",
        "a slave that refused a search is not asked again",
        ("BUS-ROUTE-18",),
        (
            Edit(
                "bus/core/finder.py",
                "request.went.pop(peer.key, None) is None",
                "request.went.get(peer.key) is None",
            ),
        ),
    ),
    Mutant(
        "N41",
        "it is remembered for ever that streams have ended",
        ("AMO-21",),
        (
            Edit(
                "bus/core/incoming_streams.py",
                "            if until > now:\n                return\n",
                "            if until > 0:\n                return\n",
            ),
        ),
    ),
    Mutant(
        "N42",
        "a task hears a notification once for each subscription that matches",
        ("AMO-28",),
        (
            Edit(
                "bus/core/interests.py",
                "        return tuple(Audience(entry, tuple(each)) for entry, each in found.items())\n",
                "        return tuple(\n            Audience(entry, (one,)) for entry, each in found.items() for one in each\n        )\n",
            ),
        ),
    ),
    Mutant(
        "N43",
        "a subscription that is asked for again is another one",
        ("AMO-29",),
        (
            Edit(
                "bus/core/requests.py",
                "        self._by_id[number] = request\n",
                "        if number in self._by_id:\n            number = replace(number, number=number.number + len(self._by_id))\n        self._by_id[number] = request\n",
            ),
        ),
    ),
)
