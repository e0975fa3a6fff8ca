"""Tests of `bus.links`: links as queues, what comes and goes, the comm thread."""
