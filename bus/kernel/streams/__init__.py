"""Numbered messages between two processes, each accepted once (at most once).

receipts          the messages that a task has extracted
incoming_stream   the messages accepted from one sender
incoming_streams  all senders, and the epoch of each
outgoing_stream   the messages that must still be kept for another link
"""
