"""The cooperative half of the bus: threads, and the tasks that take turns in them.

General layout: `account` counts the unread messages of a receiver. `inbox` is the FIFO
of a thread, to which other threads post, and `mailbox` the FIFO of one task. `delivery`
defines the items in both besides messages. `thread_manager` schedules the tasks of a
thread. `exchange` drives the process manager among all threads, and passes to `comm`
the actions that concern other processes. A `verdict` is the decision of another process
on a join or on the name of a task. `callback_failures` logs exceptions of callbacks.
"""
