"""This project and its rivals, measured side by side in one run.

``python -m benchmarks`` lists the suites. The modules::

    __main__   the command line, and the run of a suite
    contest    the contestants of a figure, and the rounds in which they are compared
    figure     the result: medians, ratios, whether the requirement is met; the tables
    job        one job in processes of its own, the same code for all contestants
    tally      the receiving side of a job
    rivals/    the table of contestants, ours included: no loop, no clock, only settings
    users, threads, rendezvous, sockets, processes, large, pattern, machines,
    journal, durable   the suites
    memory, hops, machine   sizes, the calls of a command, the description of a machine

A benchmark is never a timed test: no test under ``tests/`` reads a figure.
"""
