"""The two ends: what they answer, raise, take and put."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["ENDS"]

_OWNED = (
    Edit(
        "end.py",
        '__slots__ = ("__weakref__", "_connection", "_side")',
        '__slots__ = ("__weakref__", "_connection", "_owner", "_side")',
    ),
    Edit(
        "end.py",
        "        self._side: Final = side\n",
        "        self._side: Final = side\n        self._owner = None\n",
    ),
    Edit(
        "end.py",
        "        connection = self._connection\n"
        "        deadline = deadline_after(timeout)\n",
        "        from queuebroker import _sync\n"
        "        self._owner = self._owner or _sync.get_ident()\n"
        "        assert self._owner == _sync.get_ident()\n"
        "        connection = self._connection\n"
        "        deadline = deadline_after(timeout)\n",
    ),
    Edit(
        "fast_queue.py",
        "        lane = self._outward\n        try:\n",
        "        self._owner = self._owner or _sync.get_ident()\n"
        "        assert self._owner == _sync.get_ident()\n"
        "        lane = self._outward\n        try:\n",
    ),
)

_DISCONNECTS = "        self._connection.disconnect(self._side, error, reason)\n"

ENDS = (
    Mutant(
        "O12",
        "a send that ran out of time returns as if it had sent",
        ("QB-SEND-2", "QB-TIME-2"),
        (
            Edit(
                "status.py",
                "frozenset({Verdict.DO, Verdict.DROP})",
                "frozenset({Verdict.DO, Verdict.DROP, Verdict.WAIT})",
            ),
        ),
    ),
    Mutant(
        "O15",
        "the state of the end is looked at before the arguments",
        ("QB-SEND-8",),
        (
            Edit(
                "locked_queue.py",
                "        message = snapshot(data, offset",
                "        if self.disconnected():\n"
                '            raise self._refusal("send")\n'
                "        message = snapshot(data, offset",
            ),
            Edit(
                "fast_queue.py",
                "        if (\n            type(data) is not",
                "        if self.disconnected():\n"
                '            raise self._refusal("send")\n'
                "        if (\n            type(data) is not",
            ),
        ),
    ),
    Mutant(
        "O22",
        "a disconnect takes back what a receive has taken",
        ("QB-RECV-6",),
        (
            Edit(
                "locked_queue.py",
                "        return reception.taken\n",
                "        if self._connection.closed[self._side]:\n"
                '            raise self._refusal("receive")\n'
                "        return reception.taken\n",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "O25",
        "the cause of an abnormal disconnect is not told",
        ("QB-RECV-9",),
        (Edit("end.py", "        error.__cause__ = cause\n", ""),),
    ),
    Mutant(
        "O30",
        "disconnected() is true while half-disconnected",
        ("QB-DISC-2",),
        (
            Edit(
                "end.py",
                "return self.status is Status.DISCONNECTED",
                "return self.status is not Status.CONNECTED",
            ),
        ),
    ),
    Mutant(
        "O36",
        "remote_disconnected is false while half-disconnected",
        ("QB-DISC-13",),
        (
            Edit(
                "end.py",
                "return self._connection.closed[1 - self._side]",
                "return self.disconnected() and self._connection.closed[1 - self._side]",
            ),
        ),
    ),
    Mutant(
        "O37",
        "disconnect returns before it is seen",
        ("QB-DISC-14",),
        (
            Edit(
                "end.py",
                _DISCONNECTS,
                "        def later():\n"
                "            self._connection.disconnect(self._side, error, reason)\n"
                "        from queuebroker import _sync\n"
                "        _sync.Thread(target=later, daemon=True).start()\n",
            ),
        ),
    ),
    Mutant(
        "O42",
        "a send that ran out of time leaves its message behind",
        ("QB-TIME-6",),
        (
            Edit(
                "locked_queue.py",
                "        if verdict not in DONE:\n"
                "            raise self._unsent(verdict)\n\n",
                "        if verdict is Verdict.WAIT:\n"
                "            flow = self._connection.flows[1 - self._side]\n"
                "            flow.buffer._messages.append(message)\n"
                "        if verdict not in DONE:\n"
                "            raise self._unsent(verdict)\n\n",
            ),
        ),
    ),
    Mutant(
        "O43",
        "a receive that ran out of time takes a message with it",
        ("QB-TIME-7",),
        (
            Edit(
                "locked_queue.py",
                "            raise self._nothing_came(timeout)\n",
                "            with self._connection.lock:\n"
                "                if self.pending:\n"
                "                    self._connection.take_locked(self._side, 0)\n"
                "            raise self._nothing_came(timeout)\n",
            ),
        ),
    ),
    Mutant(
        "O44",
        "timeout 0 gives up when somebody else is at it",
        ("QB-TIME-8",),
        (
            Edit(
                "end.py",
                "        verdict = connection.critical(partial(attempt, 0))\n",
                "        if timeout == 0 and connection.lock.locked():\n"
                "            return Verdict.WAIT\n"
                "        verdict = connection.critical(partial(attempt, 0))\n",
            ),
        ),
    ),
    Mutant(
        "O46",
        "an end belongs to the thread that used it first",
        ("QB-CONC-1", "QB-CONC-3"),
        _OWNED,
    ),
)
