"""Fixtures: a clock that the test sets, and a process with one thread."""

from __future__ import annotations

import pytest

from tests.kit.clock import Clock
from tests.kit.station import Station


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.installed(monkeypatch)


@pytest.fixture
def station(clock: Clock) -> Station:
    """A process whose only thread is the calling one."""
    station = Station()
    station.home.adopt()
    return station
