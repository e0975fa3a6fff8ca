"""How a process reaches the others: its links, and the thread that serves them.

`lines` is the link pool, `comm_thread` serves it, and `sleep` is how that thread waits.
Tasks post their messages for other processes to the `relay_host`, where each relay has
a `stand_in` as its account. `arrivals` delivers remote messages to tasks, and
`extractions` acknowledges the messages that tasks took. `burst` is the send batch of a
task, and `bypass` is the fast path of a task thread.

`new_links` sets up links, `unsent` holds the frames for a full one, `frame_readers`
reads frames, and `joining` is the join state of the process. A `network` makes
processes find one another: `socket_network` on one machine, in a `run_directory`;
`memory` inside one process, for tests. `complaints` is the peer log, and `tapping` the
frame monitor.
"""
