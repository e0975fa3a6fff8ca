"""The public API of a bus.

Lowest first; a module imports only those above it:

arguments          argument checks
reentry            the refusal of calls from signal handlers
lifetime           the time in which a bus may be used; tasks that lost their owner
run_callback       one callback; its module tells it from other calls in a stack
questions          the open questions of a task, and their outcomes
bus_thread         one thread that hosts tasks
bus_threads        all of them
task_owner         the bus of a task, as the task uses it
delivery_failures  the messages of a task that could not be delivered
receiver           the callbacks of a task, and its answers
sender             commands and notifications
outcome            an outcome for which one caller waits; `Task.call`
task               the task
network_node       this process among the others
implicit_tasks     the tasks of scripts
bus                the bus: threads, tasks, reports
membership         `open_bus`
service            `Service`: a task between producers and readers
"""
