"""Tests of the modules that stand right below `bus`."""
