"""Horizons on stable storage: a restarted process hands over no message again (AMO-20).

horizons  the numbers that a restarted process refuses
format    the bytes of a file of horizons, and the faults that a reader detects
storage   the two files of a directory, with each write and sync
log       the horizons of one process: stored in groups, read after a restart
store     the same horizons in memory, for the exchange
"""
