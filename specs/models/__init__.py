"""The smallest machines that obey the clauses: the references of the tests.

Layout::

    answers.py     outcomes of operations; the form of a recorded operation
    connection.py  a connection: unread items, closed ends, the status of an end
    queue.py       its operations on messages
    channel.py     its operations on bytes
    rendezvous.py  brokers: names, ports, waiting accepts and connects
    histories.py   a connection as the model of a linearizability checker
    bulk.py        the same with send_many and receive_many
    meetings.py    brokers as the model of a linearizability checker
    stream.py      the receiver of a stream between two processes

``specs/sequential-model.md`` defines the same in words. The models use no thread, no
clock, no lock, and nothing of ``queuebroker`` or ``bus``: a model that shares code with
the implementation under test shares its faults.
"""
