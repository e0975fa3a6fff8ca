"""Mutants of the payload that a receiver gets (BUS-MSG-16, BUS-MSG-17)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_PAYLOAD"]

BUS_PAYLOAD: tuple[Mutant, ...] = (
    Mutant(
        "PAY1",
        "tasks that are sent one command share its dicts",
        ("BUS-MSG-17",),
        (
            Edit(
                "bus/api/task.py",
                "                payload=own_copy(frozen) if to_come else frozen,\n",
                "                payload=frozen,\n",
            ),
        ),
    ),
    Mutant(
        "PAY2",
        "subscribers in the process of a notifier share its dicts",
        ("BUS-MSG-17",),
        (
            Edit(
                "bus/api/task.py",
                "                payload=own_copy(frozen),\n",
                "                payload=frozen,\n",
            ),
        ),
    ),
    Mutant(
        "PAY3",
        "subscribers in another process share the dicts of a notification",
        ("BUS-MSG-17",),
        (
            Edit(
                "bus/core/intake.py",
                "                payload=own_copy(payload) if place else payload,\n",
                "                payload=payload,\n",
            ),
        ),
    ),
    Mutant(
        "PAY4",
        "a copy for one more receiver has the dicts that lie in a tuple of the first",
        ("BUS-MSG-17",),
        (
            Edit(
                "bus/payload.py",
                "        copies = tuple(map(own_copy, frozen))  # type: ignore[arg-type]\n",
                "        copies = frozen\n",
            ),
        ),
    ),
)
