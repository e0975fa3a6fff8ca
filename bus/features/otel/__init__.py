"""Trace contexts of messages, and spans about them, for OpenTelemetry.

A process that uses the feature sends the context of the caller along with a message,
and runs the callback of a message in the context that came with it. If there is no
context, messages and frames are those of a process without the feature.

tracing     the slots that the feature fills, and its spans
"""
