"""One other process: its traffic, and the relays that stand for its tasks.

outbound_run      a run of messages on their way to it
relay_counters    the outcomes of messages posted to relays
delayed_acks      the acknowledgements owed to it
session           its traffic, over all links
answer_backlog    the bound on the answers that wait for a link to it
run_queue         the runs that wait for a link to it
relay, relay_peer one of its tasks; the process, as that relay uses it
peer              the process
"""
