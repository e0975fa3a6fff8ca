"""How a process reaches others: its links, and the thread that serves them.

`lines` is the links as message queues, `comm_thread` serves them, `sleep` is how that
waits. What tasks send to others is posted to the `relay_host`, where each relay has a
`stand_in`; what comes for them from others is in `arrivals`, and what they took of it
in `extractions`. A `network` makes processes find one another: `socket_network` those
of a machine, in a `run_directory`; `memory` several inside one, for tests. `complaints`
is what the log says of peers that do wrong, `tapping` what is told to who listens.
"""
