"""The frames that a test puts on links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.core.wire import encode
from bus.links import comm_thread

if TYPE_CHECKING:
    from bus.core.wire import Frame


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """Give all frames that are put on links from now on."""
    seen: list[Frame] = []

    def tapped(frame: Frame) -> bytes:
        seen.append(frame)
        return encode(frame)

    monkeypatch.setattr(comm_thread, "encode", tapped)
    return seen
