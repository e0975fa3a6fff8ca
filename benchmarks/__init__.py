"""Ours and the rivals, measured side by side in one run: ``python -m benchmarks``.

::

    figure    what came out: medians, ratios, whether the must is met
    contest   what is compared, and the rounds in turn
    crew      threads that begin together, and the seconds they take
    workloads what each contestant has to do, the same code for all
    ours, rivals/   the contestants: no loop, no clock, only their best settings
    threads, rendezvous, journal   the suites, listed in `suites`
    anatomy, hops    the calls of a message, of a command to another process
    explorer, hunt, hunters/   who finds the faults of ``examples/faults``, and how soon

A benchmark is never a timed test: nothing under ``tests/`` looks at a figure.
"""
