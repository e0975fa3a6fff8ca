"""Tests of `bus.features.memory`: one message to many through shared memory."""
