"""Where callers meet: brokers, their manager, rendez-vous, the pairing of two ends."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["MEETING"]

MEETING = (
    Mutant(
        "O1",
        "both callers get the same end",
        ("QB-RDV-1",),
        (
            Edit(
                "pairing.py",
                "LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 1)",
                "LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 0)",
            ),
            Edit(
                "pairing.py",
                "FastMessageQueue(fast, 0), FastMessageQueue(fast, 1)",
                "FastMessageQueue(fast, 0), FastMessageQueue(fast, 0)",
            ),
        ),
    ),
    Mutant(
        "O2",
        "a match ignores the port",
        ("QB-RDV-4",),
        (
            Edit(
                "rendezvous.py",
                'for a call like this one."""\n'
                "        waiting = self._waiting.get(rdv.place)\n",
                'for a call like this one."""\n'
                "        waiting = next(iter(self._waiting.values()), None)\n",
            ),
        ),
    ),
    Mutant(
        "O3",
        "an exclusive accept is like any other",
        ("QB-RDV-9",),
        (
            Edit(
                "rendezvous.py",
                "        if not waiting:\n            return False\n",
                "        if waiting is not rdv:\n            return False\n",
            ),
        ),
    ),
    Mutant(
        "O4",
        "a broker does not find itself",
        ("QB-RDV-10",),
        (
            Edit(
                "meeting.py",
                "        target = manager.find_locked(rdv.name)\n",
                "        target = manager.find_locked(rdv.name)\n"
                "        target = None if target is caller else target\n",
            ),
        ),
    ),
    Mutant(
        "O5",
        "the end of an interrupted caller is kept, and stays connected",
        ("QB-RDV-12",),
        (
            Edit(
                "meeting.py",
                "    if end is not None:\n        end.disconnect()\n",
                "    if end is not None:\n        rdv.caller.kinds.add(end)\n",
            ),
        ),
    ),
    Mutant(
        "O6",
        "connect raises for an unknown broker, asked to or not",
        ("QB-RDV-13",),
        (Edit("broker.py", "        if required:\n", "        if name:\n"),),
    ),
    Mutant(
        "O7",
        "connect returns None for an unknown broker, whatever was asked",
        ("QB-RDV-14",),
        (Edit("broker.py", "        if required:\n", "        if not name:\n"),),
    ),
    Mutant(
        "O8",
        "the ninth waiter of a broker is forgotten",
        ("QB-RDV-15",),
        (
            Edit(
                "rendezvous.py",
                "        self._waiting.setdefault(",
                "        if len(self) < 8:\n          self._waiting.setdefault(",
            ),
        ),
    ),
    Mutant(
        "O9",
        "a final rendez-vous can be matched again",
        ("QB-RDV-16",),
        (
            Edit(
                "rendezvous.py",
                "following = _TRANSITIONS.get((self.state, event))",
                "following = _TRANSITIONS.get((self.state, event), RdVState.MATCHED)",
            ),
        ),
    ),
    Mutant(
        "O45",
        "an unknown broker is waited for until the timeout",
        ("QB-TIME-9",),
        (
            Edit(
                "broker.py",
                "            if required:\n",
                "            if timeout is not None:\n"
                "                from queuebroker import _sync\n"
                "                deadline = deadline_after(timeout)\n"
                "                _sync.park(taken_lock(), lambda: False, deadline)\n"
                "            if required:\n",
            ),
        ),
    ),
    Mutant(
        "O47",
        "a manager that closes disconnects under its own lock",
        ("QB-CONC-8",),
        (
            Edit(
                "broker_manager.py",
                "        for connection in list(self._connections.values()):\n"
                "            connection.close_both()\n",
                "        with self.lock:\n"
                "            for connection in list(self._connections.values()):\n"
                "                connection.close_both()\n",
            ),
        ),
    ),
)
