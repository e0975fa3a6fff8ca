"""Fixtures: a clock that the test sets, and a process with one thread."""

from __future__ import annotations

import pytest

from queuebroker import _sync
from tests.threads.reading import Clock
from tests.threads.station import Station


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_sync, "monotonic", clock)
    return clock


@pytest.fixture
def station(clock: Clock) -> Station:
    """A process whose only thread is the calling one."""
    station = Station()
    station.home.adopt()
    return station
