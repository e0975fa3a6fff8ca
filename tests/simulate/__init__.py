"""Whole machines in one thread, on a seeded network and a simulated clock.

General layout: `story` logs the events of a run, with frames summarized by `words`.
`counters` tracks the outcome of each message, and `recorded` holds the journals.
`network` carries bytes. `process` drives one process manager, and each `task` of it, as
threads and sockets would. `checks` verifies invariants, and `trace_sink` those of the
search model. `world` owns the clock and all of these. `plan` draws the events from a
seed; `run` executes one run, first with faults, then without. `stage` is a world for
one test, without random events.
"""
