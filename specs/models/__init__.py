"""The smallest machines that obey the clauses: what tests compare against.

Layout::

    answers.py     how an operation ends; what a recorded operation looks like
    connection.py  a connection: what is unread, who hung up, the status of an end
    queue.py       its operations on messages
    channel.py     its operations on bytes
    rendezvous.py  brokers: names, ports, who waits for whom
    histories.py   a connection as the model of a linearizability checker
    bulk.py        the same with send_many and receive_many
    meetings.py    brokers as the model of a linearizability checker

``specs/sequential-model.md`` says the same in words. No thread, no clock, no lock, and
nothing of ``queuebroker`` or ``bus``: a model that shares code with what it judges
shares its faults.
"""
