"""How a process reaches the others: its links, and the thread that serves them.

`link_pool` holds the links, `comm_thread` serves them, and waits at the `link_poller`.
Tasks post their messages for other processes to the `relay_outbox`, where each relay
has a `relay_account`. `inbound_delivery` delivers remote messages to tasks, and
`acknowledgement_tracker` acknowledges the messages that tasks took. `send_batch`
batches the commands of a task, and `fast_path_driver` is the fast path of a task
thread.

`link_setup` sets up links, `unsent` holds the frames for a full link, `frame_readers`
reads frames, and `join_state` records whether the process has joined. A `network` lets
processes find one another: `socket_network` on one machine, in a `run_directory`;
`memory` inside one process, for tests. `peer_log` limits the log lines about peers, and
`monitor_leases` keeps the listeners of the frame monitor.
"""
