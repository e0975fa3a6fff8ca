"""Our code and its rivals, measured side by side in one run: ``python -m benchmarks``.

::

    figure    the result: medians, ratios, whether the requirement is met
    contest   the contestants of one figure, and their rounds
    crew      threads that begin together, and the seconds they take
    workloads the work of each contestant, the same code for all
    ours, rivals/   the contestants: no loop, no clock, only their best settings
    threads, rendezvous, journal   three of the suites; `suites` lists all
    multicast, multicast_job, receivers, tally   the suite with several receivers
    machines, testbed, namespaces   the suite between two machines, and what it needs
    anatomy, hops    the calls of a message, of a command to another process
    explorer, hunt, hunters/   tools that find the faults of ``examples/faults``

A benchmark is never a timed test: no test under ``tests/`` reads a figure.
"""
