"""Tests of `bus.threads`."""
