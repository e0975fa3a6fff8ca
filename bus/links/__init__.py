"""How a process reaches others: its links, and the thread that serves them.

`lines` is the links as message queues, `comm_thread` serves them. What tasks send to
others is posted to the `relay_host`, where each relay has a `stand_in`; what comes for
them from others is in `arrivals`. `memory` is a network without sockets, for tests.
"""
