"""The decisions of the bus, without any code that waits.

Lowest first; a folder imports only those above it:

constants  bounds and times that no operator chooses
deadlines  a heap of deadlines
timers     when each part of the remote manager has work to do
streams    numbered messages between two processes, each accepted once
wire       the frames on a link, to and from bytes
discovery  the machines that announce themselves
local      the tasks of the own process, and the decisions about them
peer       one other process, and the relays that stand for its tasks
hooks      the places at which features plug in
remote     all other processes, and the decisions about them

No module here uses a thread, a clock, a socket or a file. Events are calls; their
results are the actions to perform. Each object belongs to one thread at a time.
"""
