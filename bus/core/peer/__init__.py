"""One other process: its traffic, and the relays that stand for its tasks.

limits            bounds and times
outbound_run      a run of messages on their way to it
relay_counters    the outcomes of messages posted to relays
session           its traffic, over all links
relay             one of its tasks
peer              the process
"""
