"""M1 to M24: real defects of other implementations, planted where ours can have them.

Those that it cannot have, because it sends no length and has no helper thread, are
planted in the small reference implementation instead (`implementations`).
"""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["SEEN_ELSEWHERE"]

_OTHERS = "tests/mutants/implementations.py"

# An end that takes a lock of its own for the whole of every operation, waiting included.
_ONE_AT_A_TIME = (
    Edit(
        "end.py",
        '__slots__ = ("__weakref__", "_connection", "_side")',
        '__slots__ = ("__weakref__", "_connection", "_side", "_busy")',
    ),
    Edit(
        "end.py",
        "        self._side: Final = side\n",
        "        self._side: Final = side\n        self._busy = _sync.Lock()\n",
    ),
    Edit(
        "end.py",
        "from queuebroker.arguments import check_error, deadline_after\n",
        "from queuebroker import _sync\n"
        "from queuebroker.arguments import check_error, deadline_after\n",
    ),
    Edit(
        "end.py",
        "        return self._wait(attempt, deadline, sends=sends)\n\n    def _wait(",
        "        with self._busy:\n"
        "            return self._wait(attempt, deadline, sends=sends)\n\n    def _wait(",
    ),
    Edit(
        "end.py",
        "        verdict = connection.critical(partial(attempt, 0))\n",
        "        with self._busy:\n"
        "            verdict = connection.critical(partial(attempt, 0))\n",
    ),
)

SEEN_ELSEWHERE = (
    Mutant(
        "M1",
        "matching ignores roles: connect meets connect, accept meets accept",
        ("QB-RDV-3",),
        (
            Edit(
                "rendezvous.py",
                "if waiting and waiting[0].accepts is not rdv.accepts:",
                "if waiting:",
            ),
        ),
    ),
    Mutant(
        "M2",
        "a matched RdV stays in the map, in the way of the third caller",
        ("QB-RDV-8",),
        (Edit("meeting.py", "    waiting.remove(opposite)\n", ""),),
    ),
    Mutant(
        "M3",
        "the copy begins at the offset and stops at the length",
        ("QB-SEND-3",),
        (
            Edit(
                "arguments.py",
                "bytes(view[start:stop])",
                "bytes(view[start : stop - start])",
            ),
        ),
    ),
    Mutant(
        "M4",
        "the bytes of the length are read as signed",
        ("QB-SEND-4",),
        implementation=f"{_OTHERS}:signed_length",
    ),
    Mutant(
        "M5",
        "nobody is notified; everybody polls once a second",
        ("QB-CONC-4", "QB-CONC-5"),
        (
            Edit(
                "parking.py",
                "expired = not _sync.park(wait.parker, ready, deadline)",
                "soon = _sync.monotonic() + 1\n"
                "            _sync.park(wait.parker, ready, soon)\n"
                "            expired = bool(deadline and soon > deadline)",
            ),
            Edit(
                "parking.py",
                "                if parker.locked() and _released(parker):\n"
                "                    break\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "M6",
        "one lock for sending and receiving: a blocked receive blocks every send",
        ("QB-CONC-2",),
        _ONE_AT_A_TIME,
        locked=True,
    ),
    Mutant(
        "M7",
        "who waits keeps the lock that a local disconnect needs",
        ("QB-DISC-4", "QB-DISC-8"),
        (
            *_ONE_AT_A_TIME,
            Edit(
                "end.py",
                "        self._connection.disconnect(self._side, error, reason)\n",
                "        with self._busy:\n"
                "            self._connection.disconnect(self._side, error, reason)\n",
            ),
        ),
    ),
    Mutant(
        "M8",
        "a blocked reader never looks at the remote flag",
        ("QB-DISC-7",),
        (
            Edit(
                "reception.py",
                "        connection, side = self._connection, self._side\n"
                "        verdict = connection.receive_verdict(side)\n",
                "        connection, side = self._connection, self._side\n"
                "        verdict = connection.receive_verdict(side)\n"
                "        if self._told_begin and verdict is Verdict.REFUSE:\n"
                "            if not connection.closed[side]:\n"
                "                return Verdict.WAIT\n",
            ),
        ),
    ),
    Mutant(
        "M9",
        "disconnect changes a flag and wakes nobody",
        ("QB-DISC-4", "QB-DISC-7"),
        (
            Edit(
                "connection.py",
                "        self.rouse_locked()\n        if self.readiness !=",
                "        if self.readiness !=",
            ),
        ),
    ),
    Mutant(
        "M10",
        "disconnect closes the far end at once; what it had not read is lost",
        ("QB-DISC-5",),
        (
            Edit(
                "connection.py",
                "        self.flows[side].buffer.discard_locked()\n",
                "        self.flows[side].buffer.discard_locked()\n"
                "        self.flows[1 - side].buffer.discard_locked()\n",
            ),
        ),
    ),
    Mutant(
        "M11",
        "both parties make the pair, each keeps an end of its own",
        ("QB-RDV-5",),
        (
            Edit(
                "meeting.py",
                "    acceptor.end, connector.end = accept_end, connect_end\n",
                "    other, _, connect_end = pair(acceptor, connector, manager.watch)\n"
                "    acceptor.end, connector.end = accept_end, connect_end\n",
            ),
        ),
    ),
    Mutant(
        "M12",
        "the wake-up goes to whoever waits first, on whatever port",
        ("QB-RDV-7", "QB-CONC-4"),
        (
            Edit(
                "meeting.py",
                "    opposite.wake()\n    acceptor",
                "    next(iter(waiting)).wake()\n    acceptor",
            ),
            Edit(
                "meeting.py",
                "    opposite.wake()\n    connector",
                "    next(iter(waiting)).wake()\n    connector",
            ),
        ),
    ),
    Mutant(
        "M13",
        "`if` instead of `while` around the wait",
        ("QB-CONC-6",),
        (
            Edit(
                "parking.py",
                "            if outcome is not PENDING or expired:\n"
                "                return outcome\n",
                "            if outcome is not PENDING or expired or woken:\n"
                "                return outcome\n"
                "            woken = True\n",
            ),
            Edit(
                "parking.py",
                "    expired = False\n    try:\n",
                "    expired = woken = False\n    try:\n",
            ),
        ),
    ),
    Mutant(
        "M14",
        "an accept does not look at the connects that wait already",
        ("QB-RDV-2",),
        (
            Edit(
                "meeting.py",
                "    opposite = waiting.opposite_of(rdv)\n",
                "    opposite = None if accepts else waiting.opposite_of(rdv)\n",
            ),
        ),
    ),
    Mutant(
        "M15",
        "a waiting connect holds its broker: no other connect of it gets through",
        ("QB-RDV-7",),
        (
            Edit(
                "broker.py",
                '        "_open",\n        "_terms",\n',
                '        "_busy",\n        "_open",\n        "_terms",\n',
            ),
            Edit(
                "broker.py",
                "        self._open = True\n",
                "        self._open = True\n"
                "        from queuebroker import _sync\n"
                "        self._busy = _sync.Lock()\n",
            ),
            Edit(
                "broker.py",
                "            return meet(self.connecting(",
                "            with self._busy:\n"
                "                return meet(self.connecting(",
            ),
        ),
    ),
    Mutant(
        "M16",
        "names are compared by identity",
        ("QB-NAME-3",),
        (
            Edit(
                "broker_manager.py",
                "    def find_locked(self, name: str) -> Broker | None:\n"
                '        """Return the live broker of that name, None if there is none."""\n'
                "        return self._brokers.get(name)\n",
                "    def find_locked(self, name: str) -> Broker | None:\n"
                "        for known, broker in self._brokers.items():\n"
                "            if known is name:\n"
                "                return broker\n"
                "        return None\n",
            ),
        ),
    ),
    Mutant(
        "M17",
        "the second part of a partial read starts with the wrong count",
        ("QB-CHAN-7",),
        (
            Edit(
                "channel.py",
                "done += self.read(content, done",
                "done = self.read(content, done",
            ),
        ),
    ),
    Mutant(
        "M18",
        "capacity n holds n - 1",
        ("QB-BUF-2",),
        (
            Edit(
                "circular_buffer.py",
                "return len(self._messages) >= self.capacity",
                "return len(self._messages) >= self.capacity - 1",
            ),
        ),
    ),
    Mutant(
        "M19",
        "disconnect clears what both ends share, the peer stumbles over it",
        ("QB-DISC-9",),
        (
            Edit(
                "connection.py",
                "        self.closed[side] = True\n",
                "        self.closed[side] = True\n"
                "        if self.closed[1 - side]:\n"
                "            self.flows = None\n",
            ),
        ),
    ),
    Mutant(
        "M20",
        "receive swallows the disconnect and answers None",
        ("QB-RECV-4",),
        (
            Edit(
                "locked_queue.py",
                '            raise self._refusal("receive")\n',
                "            return None\n",
            ),
        ),
    ),
    Mutant(
        "M21",
        "a remote close discards what a helper thread had fetched",
        ("QB-DISC-5",),
        implementation=f"{_OTHERS}:prefetching",
    ),
    Mutant(
        "M22",
        "a sender released by a disconnect leaves a truncated message",
        ("QB-SEND-5",),
        implementation=f"{_OTHERS}:prefixed",
    ),
    Mutant(
        "M23",
        "an accept that timed out stays on the list, a ghost",
        ("QB-RDV-11", "QB-TIME-4"),
        (
            Edit(
                "meeting.py",
                "            withdraw_locked(rdv, Reason.TIMED_OUT)\n",
                "            rdv.reason = Reason.TIMED_OUT\n"
                "            raise _refusal(rdv)\n",
            ),
            Edit(
                "meeting.py",
                "        if rdv.waiting:\n"
                "            withdraw_locked(rdv, Reason.INTERRUPTED)\n",
                "        if rdv.waiting and rdv.reason is not Reason.TIMED_OUT:\n"
                "            withdraw_locked(rdv, Reason.INTERRUPTED)\n",
            ),
        ),
    ),
    Mutant(
        "M24",
        "a second connect on a port takes the place of the first",
        ("QB-RDV-6",),
        (
            Edit(
                "rendezvous.py",
                "self._waiting.setdefault(rdv.place, []).append(rdv)",
                "self._waiting[rdv.kind, rdv.port] = [rdv]",
            ),
        ),
    ),
)
