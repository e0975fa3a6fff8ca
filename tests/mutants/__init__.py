"""Faults planted on purpose: a suite that misses one has a hole.

``python -m tests.mutants`` tries two kinds. cosmic-ray makes those of pure code
(`machine`); each folder has a score. Those of threads, interrupts, the order of writes
and sequences of messages are made by hand (``faults``): each names the test that must
notice it. A trial is a fork of one process that has collected the tests (`forks`): the
code of the changed functions is swapped there. A change of anything else is tried with
a planted copy of the library.
"""
