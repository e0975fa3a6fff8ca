"""The public API of a bus.

General layout: `questions` holds the open questions of a task, `receiver` runs its
callbacks, and `subscription` holds its interests in other tasks. `task` is the task,
`bus_thread` the thread that hosts it, `snapshot` the result of an inspection, and
`inspector` reports the state of a process to others. `implicit_tasks` are the tasks of
scripts. `bus` is the entry point to all of them, and `membership` opens it.
"""
