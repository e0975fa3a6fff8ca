"""Protocol models for SPIN: what could go wrong between threads, tried in every order.

Layout, each file on those above it:

- ``*.pml``: a model, the Python function that each step mirrors, its properties
- ``model``: which sizes of a model are run, which planted faults must be found
- ``spin``: one run of SPIN, and what it came to
- ``__main__``: ``python -m specs.promela``, all runs and their table

The code is held to the safety properties by the same names: in every schedule by
``tests/schedules/invariants.py``, step by step of a simulated link or bus by
``tests/core/stream_invariants.py`` and ``tests/core/search_invariants.py``.
"""
