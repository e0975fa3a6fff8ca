"""The decisions of the bus, without any code that waits.

General layout: `missing_table` holds the gaps of a stream; `incoming_stream` and
`outgoing_stream` are its two ends; `incoming_streams` has one stream for each sender.
`wire` defines the frames on a link. `specification_trie` finds patterns of names.

`routing_table`, `parked_list` and `interests` hold the state of the process's own
tasks; `process_manager` decides on it. The other modules deal with other processes:

* `session`: the traffic with one process; `receipts`: the extracted messages.
* `relay` and `peer`: a process and its tasks; `relays`: all relays.
* `topology` and `requests`: the routes by which other processes are asked.
* `name_registry`, `user_routing_table`, `pending_names`: the holders of names.
* `outbound_messages`, `inbound_messages`, and `relay_counters` for both.
* `resolver` and `remote_subscriptions`: searches and subscriptions.
* `idle_relays`: unused relays.
* `link`, `handshake`, `link_table`, `idle_links`: a link, from its first frame to
  its last.
* `control_frames`: the handlers of control frames.
* `remote_manager`: decides on all of these.

`limits` holds the bounds, and `actions` the requests of the two deciding modules.
`frame_monitor` records frames for people, in the words of `frame_facts`.

No module here uses a thread, a clock, a socket or a file. Events are calls; their
results are the actions to perform. Each object belongs to one thread at a time.
"""
