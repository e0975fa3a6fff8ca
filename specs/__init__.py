"""The contract: what every channel promises, in words, in models and in tests.

Layout::

    *.md          the clauses; README.md says how to read them
    clauses.py    the registry, and the decorator that ties a test to a clause
    coverage.py   which test answers for which clause (`python -m specs`)
    models/       the smallest machines that obey the clauses
    conformance/  the suite, over any implementation
    promela/      protocol models for SPIN (`python -m specs.promela`)

The clauses and the models import nothing of ``queuebroker`` or ``bus``: a contract does
not know who keeps it.
"""
