"""Durable horizons: a restarted process hands over no message again (AMO-20).

api       `Durability`: the stable storage of a receiver
horizons  the numbers that a restarted process refuses
format    the bytes of a file of horizons, and the faults that a reader detects
storage   the two files of a directory, with each write and sync
store     the horizons of one process, stored in groups
"""
