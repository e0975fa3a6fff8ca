"""The fixtures of `tests.bus`, a bus for coroutines, and tests that are coroutines."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from bus import aio
from tests.aio.support import run
from tests.bus.conftest import bus, patient, there

if TYPE_CHECKING:
    from bus import Bus

__all__ = ["bus", "patient", "there"]


@pytest.fixture
def face(bus: Bus) -> aio.Bus:  # the fixture
    return aio.wrap(bus)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj(**{each: pyfuncitem.funcargs[each] for each in names}))
    return True
