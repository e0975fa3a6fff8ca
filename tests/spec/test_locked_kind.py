"""The tests of sends and receives once more, for the kind of end that takes a lock.

It is the kind of interpreters without the global lock, and of ``QUEUEBROKER_LOCKED=1``.
CI runs the whole suite with that variable, too; here each run covers that kind.
"""

# ruff: noqa: F403 # the tests of these modules are collected here as well

from __future__ import annotations

import pytest

from queuebroker.meeting import meet
from tests.spec.test_bulk import *
from tests.spec.test_disc import *
from tests.spec.test_err import *
from tests.spec.test_fifo import *  # type: ignore[assignment]  # the name of a constant
from tests.spec.test_recv import *
from tests.spec.test_send import *
from tests.spec.test_time import *


@pytest.fixture(autouse=True)
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meet, "LOCKED", True)
