"""Drawn rounds of threads that use the same queues at the same time."""
