"""The threads of a process: they carry out what the kernel decides.

Lowest first; a module imports only those above it:

at_exit                  close the buses and journals that a program has left open
account                  the messages that a task has not yet taken, and their bounds
comm                     the comm thread, as the exchange uses it
mailbox                  the FIFO of one task
inbox                    the FIFO of a thread, to which other threads post
scheduler                the turns of the tasks of one thread, and its timers
failures                 the logs of callbacks, internal errors and peers
thread_manager           the tasks of one thread: calls, turns, moves
registration             a registration, and its undoing after an interrupt
parked_expiry            the timer that expires parked messages
exchange                 the decisions of the process, and the actions that follow
router                   finds the task or relay of a message, and posts the message
acknowledgement_tracker  when the acknowledgements of taken messages are due
send_batch               the commands or notifications that a task sends together
accounts                 the bounds on messages for other processes
inbound_delivery         the messages of other processes for tasks
verdict                  the decision of another process on a join or a name
link_poller              the wait at all links
link_policy              the rules of a network about links and roles
link_helpers             the threads that set up the links of a process
link_pool                the open links: set-up, sending, closing
relay_outbox             the messages of tasks for other processes
rounds                   the work of the comm thread between two sleeps
fast_path_driver         the fast path, on which a task thread uses a link itself
run_directory            the files by which processes of a machine find one another
comm_thread              the thread that serves the links, until the bus is closed
memory_network           a network inside one process, for tests
peer_trust               the peers that may have a link
socket_listeners         the sockets for new links
socket_network           a network of processes on one machine, by UNIX sockets
"""
