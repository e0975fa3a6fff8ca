"""Tests of `bus.process`."""
