"""The two ends of a connection, and the state they share under one lock.

side               one of the two ends
status             the tables: the status of an end, the verdict on an operation
circular_buffer    bounded buffers, of messages and of bytes
flow               one direction: its buffer and its counters
connection         the shared state: flags, buffers, counters, the lock
queue_connection   the same for messages: the effect of a send and of a receive
receive_attempt    one receive, independent of how the caller waits
end                the common base of all ends
channel            ends for bytes
message_queue      ends for whole messages
typed_queue        ends for objects of one type
locked_queue       the kind of end that runs every operation under the lock
"""
