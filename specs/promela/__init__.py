"""Protocol models for SPIN: races between threads, explored in every order.

Layout, each file building only on those above it:

- ``*.pml``: a model, the Python function that each step mirrors, its properties
- ``model``: the sizes of a model to run, the planted faults to find
- ``spin``: one run of SPIN, and its finding
- ``__main__``: ``python -m specs.promela``, all runs and their table

Tests check the safety properties, by the same names, on the code: in every schedule in
``tests/schedules/invariants.py``, at each step of a simulated link or bus in
``tests/kernel/stream_invariants.py`` and ``tests/kernel/search_invariants.py``.
"""
