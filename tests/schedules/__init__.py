"""Every schedule of small programs over the library, up to a bound, and random ones.

Layout, each file on those above it:

- ``scenario``: a program, the clauses it serves, and the registry
- ``outcome``: what a call in a thread came to
- ``level``, ``survey``: how hard to look; one scenario at one level
- ``test_*.py``: the scenarios, and their test at the level quick, which runs in CI
- ``shared``: the races of the conformance suite, over the library
- ``table``, ``__main__``: ``python -m tests.schedules --level quick|full``

A scenario may look at the inside of the library; what any implementation can be asked
is in ``specs/conformance/scenarios``.
"""
