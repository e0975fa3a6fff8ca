"""Generated traffic for every checker: clean or with planted faults, on the disk.

General layout: `history` runs the model, `faults` breaks a promise and reports which,
`deaths` kills a process during the traffic, `disk` writes journals in a given
condition::

    history = clean(seed, channels=3, steps=200)
    key = plant(history, "duplicate", rng)
    store(history, folder, conditions={0: Condition(closed=False)})
"""

from tests.journal.deaths import kill, split
from tests.journal.disk import Condition, journal_id, store
from tests.journal.faults import FAULTS, Key, plant
from tests.journal.history import Entry, History, clean

__all__ = [
    "FAULTS",
    "Condition",
    "Entry",
    "History",
    "Key",
    "clean",
    "journal_id",
    "kill",
    "plant",
    "split",
    "store",
]
