"""Tests of `bus.process`: the link pool, delivery, and the comm thread."""
