"""Horizons on stable storage: a restarted process hands over no message again (AMO-20).

format    the bytes of a file of horizons, and the faults that a reader detects
storage   the two files of a directory, each write and sync of them
log       the horizons of one process: stored in groups, read after a restart
store     the same horizons in memory, as the exchange uses them
"""
