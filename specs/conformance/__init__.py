"""The channel contract as a suite that runs over any implementation.

General layout, each file building only on those above it:

- ``level``, ``scenario``: the effort of a run; the registry of programs
- ``call``, ``expectation``, ``bytewise``, ``stage``: the tools of a program
- ``explored``, ``real``: the two drivers of a stage
- ``members``, ``trial``, ``subject``: the implementation, and its features
- ``performance``: one scenario on one implementation
- ``recorder``, ``scenarios/``: the programs, one file a group of clauses
- ``verdict``: the clauses held, failed, not offered
- ``conftest``, ``test_conformance``: the suite as pytest sees it

``pytest --conformance FILE:factory`` and ``bus conformance FILE:factory`` run it;
``docs/how-to/test-your-own-broker.md`` describes the result of the factory. The
implementation under test need not use ``queuebroker``; the suite uses its explorer as a
tool.
"""
