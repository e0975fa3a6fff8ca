"""Measures how the project reads: ``python -m tests.words``."""
