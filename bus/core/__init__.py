"""What the bus decides, and nothing of how it waits.

General layout: `missing_table` holds the gaps of a stream, `incoming_stream` and
`outgoing_stream` are its two ends, `incoming_streams` knows who sends. `wire` is how
frames look on a link. `specification_trie` finds patterns of names.

What a process knows of itself are `routing_table`, `parked_list` and `interests`, and
`process_manager` decides. What it knows of others: `session`, all that goes to one and
comes from it, with `receipts` for what was taken; `relay` and `peer`, its tasks;
`neighbours` and `requests`, by which ways others are asked; `user_table`, `directory`
and `verdicts`, who has which name; `relays` and `correspondence`, what becomes of
messages to others, with `relay_books` to count it, and `intake`, of theirs; `finder`
and `listening`, searches and subscriptions; `disuse`, relays that nobody needs; `link`,
`greeting`, `links` and `parting`, from the first frame to the last; `tidings`, to whom
what others say goes. There `neighbourhood` decides.
`limits` are the bounds, and `actions` is what either of the two wants done. `tap` notes
frames for people, in the words of `frame_facts`.

Nothing here knows a thread, a clock, a socket or a file. Events are calls; what is to
be done about them is what they return. Each object belongs to one thread at a time.
"""
