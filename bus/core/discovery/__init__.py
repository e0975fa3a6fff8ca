"""Discovery: how the masters of a network learn of each other (BUS-DISC).

announcement_reader   checks received datagrams, and counts the rejected ones
machine_table         the machines that have announced themselves

`bus.core.wire.announcement` is the datagram, `bus.core.remote.discovery` decides which
machines are dialled, and `bus.links.announcer` has the sockets.
"""
