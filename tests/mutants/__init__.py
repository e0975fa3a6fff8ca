"""Faults planted on purpose: a suite that misses one has a hole.

``python -m tests.mutants`` plants each fault of the catalogue in a copy of the library
(or takes a small implementation that has it), runs the tests of the clauses that should
notice, and prints which test did. ``--by-clause`` checks the other direction: for each
clause of the hard groups, a fault that the clause's own tests, run alone, catch.
"""
