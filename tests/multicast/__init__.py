"""Tests of `bus.multicast`: one message to many through shared memory."""
