"""The faults, by what they break; each file is one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.faults.bytewise import BYTEWISE
from tests.conformance.faults.clocks import CLOCKS
from tests.conformance.faults.goodbyes import GOODBYES
from tests.conformance.faults.meetings import MEETINGS
from tests.conformance.faults.messages import MESSAGES
from tests.conformance.faults.names import NAMES
from tests.conformance.faults.seen_elsewhere import SEEN_ELSEWHERE
from tests.conformance.faults.surface import SURFACE

if TYPE_CHECKING:
    from tests.conformance.fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    *SEEN_ELSEWHERE,
    *NAMES,
    *MEETINGS,
    *MESSAGES,
    *GOODBYES,
    *CLOCKS,
    *BYTEWISE,
    *SURFACE,
)
