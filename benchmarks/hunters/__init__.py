"""Who looks for faults in threaded programs: one module for each way to do it.

Each has ``NAME``; ``NEEDS``, what has to be installed, or None; and a function
``hunt(path, seed, note)`` that runs the program of a file, calls ``note()`` for each
run, and returns whether a fault was found. If it returns False it has given up.
``LAUNCHER`` is a command in which its process has to be started, if there is one.
"""

from __future__ import annotations

__all__ = ["HUNTERS"]

# By the names of the modules, in the order of the table's columns.
HUNTERS = (
    "explorer",
    "stress",
    "eager_stress",
    "random_sleeps",
    "run_parallel",
    "frontrun_dpor",
    "frontrun_random",
)
