"""What the bus decides, and nothing of how it waits.

General layout: `missing_table` holds the gaps of a stream, `incoming_stream` and
`outgoing_stream` are its two ends, `incoming_streams` knows who sends. `wire` is how
frames look on a link. `specification` and `specification_trie` are patterns of names.
`routing_table`, `parked_list` and `interests` are what a process knows, `actions` what
it wants done, and `process_manager` decides.

Nothing here knows a thread, a clock, a socket or a file. Events are calls; what is to
be done about them is what they return. Each object belongs to one thread at a time.
"""
