"""Tests of `bus.features.durable`, and of the processes that use it."""
