"""The cooperative half of the bus: threads, and the tasks that take turns in them.

account                 the unread messages of a receiver, and its bounds
dropping_account        the same for a receiver that drops its oldest message
delivery                the items in a FIFO besides messages
inbox, mailbox          the FIFO of a thread, to which other threads post; of one task
callback_failures       a log of the exceptions of callbacks
internal_errors         a log of the errors in the code of the bus, with pauses
scheduler               the turns of the tasks of one thread, and its timers
thread_manager          one thread, with its tasks
host_thread             calls in the thread that hosts a task, and moves to another
opening                 the opening of a mailbox, with the messages that waited for it
registration_attempt    the registration of a task, and its undoing
emptying                the removal of a deregistered task from its thread
undoable                a decision that an interrupt may cut off
parked_expiry           the timer that expires parked messages
comm                    the comm thread, as the exchange uses it
fast_delivery           the delivery of a frame by the thread that reads it
exchange                the decisions of the process, and the actions that follow
binding                 the messages that waited for a name of any machine
router                  finds the task or relay of a message, and posts the message
verdict                 the decision of another process on a join or a name
"""
