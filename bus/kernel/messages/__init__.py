"""The messages to and from other processes.

outbound_messages  messages to other processes, and those that cannot be delivered
inbound_messages   messages of other processes, from their frame to their task
"""
