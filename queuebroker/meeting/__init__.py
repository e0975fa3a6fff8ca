"""The rendezvous: how an accept and a connect meet by name and port.

rendezvous        the waiting calls, as states without any wait
broker_manager    brokers by name, and the lock of every rendezvous among them
meet              a call, from its arrival until it meets its opposite; their two ends
current           the broker of the calling thread or coroutine
broker            a name that accepts and opens channels
queue_broker      a name that accepts and opens queues of messages
task              a thread that belongs to a broker
"""
