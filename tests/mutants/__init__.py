"""Faults planted on purpose: a suite that leaves one alive has a hole.

``python -m tests.mutants`` plants each fault of the catalogue in a copy of the library
(or takes a small implementation that has it), runs the tests of the clauses that
should notice, and says who did. ``--by-clause`` asks the other way round: for each
clause of the hard groups, a fault that the clause's own tests, run alone, catch.
"""
