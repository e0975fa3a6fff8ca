"""The values of a bus: names, messages, payloads, rights, settings, reports.

Nothing here waits, and nothing depends on the other parts of the bus.

error_text     texts of errors that a message can carry
address        the destination of a message, ``mod`` or ``ism://bus@machine/mod``
empty_view     a view with several dimensions and no items
arrays         payloads of numbers of one type, in one or more dimensions
loan           a buffer in which a task writes one message without a copy
payload        the values that a message can carry, copied at the sender
message        the messages between tasks: four kinds, as callbacks receive them
events         the events that the bus reports to a journal
specification  the names that a subscription matches, one or a pattern of them
rights         access lists, rights and credentials of users
registration   the identity and the terms of a registration; the role of a process
config         the settings of a bus, in one table
snapshot       the results of `Bus.inspect`
"""
