"""The cooperative half of the bus: threads, and the tasks that take turns in them.

General layout: `account` counts what a receiver has unread, `inbox` is the FIFO that
others post to, `delivery` what goes through it beside messages, `mailbox` the FIFO of
one task, `thread_manager` lets tasks take turns, `exchange` drives the manager of the
process among all of them, and asks `comm` for what concerns other processes. A
`verdict` is what these say of a process, or of a task.
"""
