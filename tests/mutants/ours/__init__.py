"""Faults of our own making: for clauses that no defect seen elsewhere touches.

A module holds those that are planted in one part of the library.
"""

from __future__ import annotations

from tests.mutants.ours.arguments import ARGUMENTS
from tests.mutants.ours.connections import CONNECTIONS
from tests.mutants.ours.ends import ENDS
from tests.mutants.ours.handlers import HANDLERS
from tests.mutants.ours.meeting import MEETING
from tests.mutants.ours.states import STATES
from tests.mutants.ours.waiting import WAITING

__all__ = ["OURS", "WITHOUT"]

# Clauses of the hard groups for which no mutant is planted, and why.
WITHOUT: dict[str, str] = {}

# By number: ``--by-clause`` takes the first one that names a clause.
OURS = tuple(
    sorted(
        (*MEETING, *ARGUMENTS, *STATES, *ENDS, *CONNECTIONS, *WAITING, *HANDLERS),
        key=lambda mutant: int(mutant.id[1:]),
    )
)
