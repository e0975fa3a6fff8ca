"""Sleeping and being woken."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["WAITING"]

WAITING = (
    Mutant(
        "O21",
        "a disconnect wakes one of those who wait",
        ("QB-RECV-5", "QB-DISC-15"),
        (
            Edit(
                "parking.py",
                "                if parker.locked():\n"
                "                    _released(parker)\n",
                "                if parker.locked() and _released(parker):\n"
                "                    break\n",
            ),
            Edit(
                "sleepers.py",
                "        while self.sleeping:\n            self.wake_one()\n",
                "        if self.sleeping:\n            self.wake_one()\n",
            ),
        ),
    ),
    Mutant(
        "O40",
        "each wake-up grants another second",
        ("QB-TIME-3",),
        (
            Edit(
                "parking.py",
                "expired = not _sync.park(wait.parker, ready, deadline)\n",
                "expired = not _sync.park(wait.parker, ready, deadline)\n"
                "            deadline = deadline and deadline + 1\n",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "O41",
        "at the deadline nobody looks again",
        ("QB-TIME-5",),
        (
            Edit(
                "parking.py",
                "outcome = self._attempt()",
                "outcome = PENDING if last else self._attempt()",
            ),
        ),
    ),
    Mutant(
        "O49",
        "a woken sender does not wake the next one",
        ("QB-CONC-4",),
        (
            Edit(
                "circular_buffer.py",
                "        self._pulled += 1\n        self.wake_locked()\n"
                "        return message\n",
                "        self._pulled += 1\n"
                "        if self.room:\n            self.room.wake_one()\n"
                "        return message\n",
            ),
        ),
    ),
)
