"""Tests of `bus.links`: the link pool, delivery, and the comm thread."""
