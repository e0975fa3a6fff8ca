"""Whole machines in one thread, on a seeded network and a clock of their own.

General layout: `story` keeps what happened, in `words`, `books` what became of each
message, `recorded` what journals are told of it, `network` carries bytes, `process`
drives one process manager, and each `task` of its, as threads and sockets would,
`checks` says what must hold, `witness` asserts what the search model does, `world` has
the clock and all of these. `plan` draws what happens from a seed, `run` is one run:
first with faults, then without. `stage` is a world for one test, without any chance in
it.
"""
