"""Tests of `bus.horizon`, and of the processes that use it."""
