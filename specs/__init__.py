"""The contract of every channel: in words, in models and in tests.

Layout::

    *.md          the clauses; README.md says how to read them
    clauses.py    the registry, and the decorator that ties a test to a clause
    coverage.py   the map from clauses to tests (`python -m specs`)
    models/       the smallest machines that obey the clauses
    conformance/  the suite, over any implementation
    promela/      protocol models for SPIN (`python -m specs.promela`)

The clauses and the models import nothing of ``queuebroker`` or ``bus``: a contract is
independent of its implementations.
"""
