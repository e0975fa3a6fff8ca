"""The fixtures of `tests.bus`: a bus for each test, and a place at each distance."""

from __future__ import annotations

from tests.bus.conftest import bus, patient, there

__all__ = ["bus", "patient", "there"]
