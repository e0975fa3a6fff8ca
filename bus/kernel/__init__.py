"""The kernel of a bus: its decisions, without any code that waits.

Lowest first; a folder imports only those above it:

constants       bounds and times that no operator chooses
timers          when each part of the remote manager has work to do
streams         numbered messages between two processes, each accepted once
wire            the frames on a link, to and from bytes
trace           one message, as a journal records it
tasks           the tasks of the own process, and the decisions about them
peer            one other process, and the relays that stand for its tasks
hooks           the places at which features plug in
topology        the known processes, and routes of requests
name_registry   the holders of public names
relays          the relays of tasks of all peers
searches        the search for a name
messages        messages to and from other processes
links           the links to other processes
process_loss    the end of other processes
task_announcer  the tasks of this process, reported to others
dispatch        frames for several parts; checks of the senders
remote_manager  the decisions; the table of frame handlers
fast_path       one message, sent or received by a task's thread

No module here uses a thread, a clock, a socket or a file, and none knows a feature:
features plug in by `hooks`. Events are calls; their results are the actions to
perform. Each object belongs to one thread at a time.
"""
