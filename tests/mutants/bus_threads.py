"""Mutants of threads, their ends and their finalizers within a process (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_THREADS"]

BUS_THREADS: tuple[Mutant, ...] = (
    Mutant(
        "TH1",
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
        "TH2",
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
        "TH3",
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
        "TH4",
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
        "TH5",
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
    Mutant(
        "TH6",
        "the end of the program waits for a bus thread",
        ("OPEN-21",),
        (
            Edit(
                "bus/api/bus.py",
                'name=f"{self.name} {name}", daemon=True\n',
                'name=f"{self.name} {name}", daemon=False\n',
            ),
        ),
    ),
    Mutant(
        "TH7",
        "a child of multiprocessing closes no bus at its end",
        ("OPEN-21",),
        (
            Edit(
                "bus/at_exit.py",
                "        finalizer = util.Finalize(None, function, exitpriority=_PRIORITY)\n",
                "        finalizer = util.Finalize(None, int, exitpriority=_PRIORITY)\n",
            ),
        ),
    ),
)
