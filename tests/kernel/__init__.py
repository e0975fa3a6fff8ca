"""Tests of what the bus decides."""
