"""Mutants of threads, their ends and their finalizers within a process (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_THREADS"]

BUS_THREADS: tuple[Mutant, ...] = (
    Mutant(
        "T1",
        "the finalizer of an iterator deregisters the task, and takes locks",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "            self._bus._dropped.append(self._task)\n",
                "            self._task.deregister()\n",
            ),
        ),
    ),
    Mutant(
        "T2",
        "nobody deregisters the task of a dropped iterator",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/bus.py",
                "            self._dropped.popleft().deregister()\n",
                "            self._dropped.popleft()\n",
            ),
        ),
    ),
    Mutant(
        "T3",
        "notifications pile up for an iterator that was dropped",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "        if self.dropped:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "T4",
        "a task is opened by a request to its own thread, which may never serve",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            if place.between_callbacks():\n                opens()\n",
                "            if False:\n                opens()\n",
            ),
        ),
    ),
    Mutant(
        "T5",
        "an iteration drops what was unread when its thread was stopped",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "            thread._see_it_stop()\n",
                "            pass\n",
            ),
        ),
    ),
)
