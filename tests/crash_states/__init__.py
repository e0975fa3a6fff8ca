"""Crash states: what a power cut may leave of the horizons of a process (AMO-20).

``python -m tests.crash_states --count N`` runs the code that stores horizons on a
simulated disk. At each system call it builds the states in which a power cut could
leave that disk, and restarts the process from each of them. SIGKILL keeps the page
cache, so a test that kills processes cannot detect a missing sync.

disk      a disk: the stable contents, the pending operations, and the crash states
system    the system calls of `bus.features.durable.storage`, on such a disk
run       a process that receives messages, is killed and loses power
campaign  runs until enough states are checked
"""
