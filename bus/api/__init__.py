"""The public API of a bus.

arguments                           argument checks
reentry                             the refusal of calls from signal handlers
lifetime                            the time in which a bus may be used
orphans                             the tasks that lost their owner
questions, asker                    the open questions of a task, and their outcomes
responder                           the answers that a task gives
delivery_failures                   the messages of a task that could not be delivered
run_callback, stuck_callback        one callback; a callback that does not end
unanswered                          why an answer is missing
receiver                            the callbacks of a task
awaited_outcome                     an outcome for which one caller waits
subscription                        interests in other tasks; the wait for their effect
command_handle, sender, call        commands and notifications; a command and its answer
task_owner, task                    the task, and its bus as the task uses it
bus_thread, bus_threads             the threads that host tasks
task_registration                   the registration of a task, until it has its name
inspection, inspector               the state of a process, and its report to others
notification_iterator,
implicit_tasks                      the tasks of scripts
features                            the features, loaded at their first use
network_node                        this process among the others
foreign_tasks                       the end of a bus for tasks of other buses
addresses, bus                      the entry point to all of these
membership                          `open_bus`
"""
