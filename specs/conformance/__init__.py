"""The channel contract as a suite that runs over any implementation.

General layout, each file building only on those above it:

- ``level``, ``scenario``: how hard to look; the programs and their registry
- ``stage``: what a program may do: spawn, settle, look, expect
- ``explored``, ``real``: the two drivers of a stage, and who calls for which
- ``subject``: the implementation under test: loading it, what it offers
- ``scenarios/``: the programs, one file a group of clauses
- ``verdict``: the clauses held, failed, not offered
- ``conftest``, ``test_conformance``: the suite as pytest sees it

``pytest --conformance FILE:factory`` and ``bus conformance FILE:factory`` run it;
``docs/how-to/test-your-own-broker.md`` says what the factory must give.
"""
