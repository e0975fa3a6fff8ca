"""How a process reaches others: its links, and the thread that serves them.

`lines` is the links as message queues, `comm_thread` serves them, `sleep` is how that
waits. What tasks send to others is posted to the `relay_host`, where each relay has a
`stand_in`; what comes for them from others is in `arrivals`, and what they took of it
in `extractions`; `bypass` is how a thread of tasks goes to a link itself. `new_links`
is how links are made, `frame_readers` what is read of them, `joining` whether this
process has found the others. A `network` makes processes find one another:
`socket_network` those of a machine, in a `run_directory`; `memory` several inside one,
for tests. `complaints` is what the log says of peers that do wrong, `tapping` what is
told to who listens.
"""
