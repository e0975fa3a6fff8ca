"""Tests of the modules directly below `bus`."""
