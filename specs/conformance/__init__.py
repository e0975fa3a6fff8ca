"""The channel contract as a suite that runs over any implementation.

General layout, each file building only on those above it:

- ``level``, ``scenario``: how hard to look; the programs' registry
- ``call``, ``expectation``, ``bytewise``, ``stage``: what a program works with
- ``explored``, ``real``: the two drivers of a stage
- ``members``, ``trial``, ``subject``: the implementation, and what it offers
- ``performance``: one scenario on one implementation
- ``recorder``, ``scenarios/``: the programs, one file a group of clauses
- ``verdict``: the clauses held, failed, not offered
- ``conftest``, ``test_conformance``: the suite as pytest sees it

``pytest --conformance FILE:factory`` and ``bus conformance FILE:factory`` run it;
``docs/how-to/test-your-own-broker.md`` says what the factory must give. What is tested
need not know of ``queuebroker``; the suite uses its explorer as a tool.
"""
