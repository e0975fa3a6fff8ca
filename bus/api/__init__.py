"""What the author of a program holds of a bus.

General layout: `questions` are what a task waits for, `receiver` is how it is called
back, `subscription` what it asked to hear, `task` the task, `bus_thread` what hosts it,
`snapshot` what can be seen from outside, `bus` the door to all of them.
"""
