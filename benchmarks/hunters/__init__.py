"""Hunters: one module for each method to find faults in threaded programs.

Each has ``NAME``; ``NEEDS``, a module that must be installed, or None; and a function
``hunt(path, seed, note)`` that runs the program of a file, calls ``note()`` for each
run, and returns True if it found a fault. If it returns False, it has given up.
``LAUNCHER``, if present, is the command that must start its process.
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
