"""One other process: its session, and the relays that stand for its tasks.

delayed_acks  the acknowledgements owed to it
session       its traffic, over all links
run_queue     the runs that wait for a link to it
relay         represents, in one process, a task of another process
peer          the process
"""
