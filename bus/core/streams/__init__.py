"""Numbered messages between two processes, each accepted once (at most once).

missing_table       the numbers that were skipped and have not arrived
incoming_stream     the messages accepted from one sender
incoming_streams    all senders, and the epoch of each
outgoing_stream     the messages that must still be kept for another link
receipts            the messages that a task has extracted
"""
