"""Every schedule of small programs over the library, up to a bound, and random ones.

Layout, each file on those above it:

- ``scenario``: a program, its clauses, and the registry
- ``outcome``: the result of a call in a thread
- ``level``, ``survey``: sizes of a survey; one scenario at one level
- ``callers``, ``memory``: helpers of scenarios of the rendezvous and of shared memory
- ``test_*.py``: the scenarios, and their test at the level quick, which runs in CI
- ``shared``: the races of the conformance suite, over the library
- ``table``, ``__main__``: ``python -m tests.schedules --level quick|full``

A scenario may use internals of the library; tests that any implementation can pass are
in ``specs/conformance/scenarios``.
"""
