"""Discovery: how the masters of a network learn of each other (BUS-DISC).

announcement_reader   checks received datagrams, and counts the rejected ones
machine_table         the machines that have announced themselves
discovery             the announcements and the table of one master

`bus.core.wire.announcement` defines the datagram,
`bus.core.remote.machine_dialler` dials the discovered machines, and
`bus.links.announcer` owns the sockets.
"""
