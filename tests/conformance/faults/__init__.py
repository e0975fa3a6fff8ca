"""The faults by topic: a file, a table; `quoted` has the lines shared by several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.faults.bytewise import BYTEWISE
from tests.conformance.faults.clocks import CLOCKS
from tests.conformance.faults.goodbyes import GOODBYES
from tests.conformance.faults.meetings import MEETINGS
from tests.conformance.faults.names import NAMES
from tests.conformance.faults.receiving import RECEIVING
from tests.conformance.faults.seen_elsewhere import SEEN_ELSEWHERE
from tests.conformance.faults.sending import SENDING
from tests.conformance.faults.surface import SURFACE

if TYPE_CHECKING:
    from tests.conformance.fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    *SEEN_ELSEWHERE,
    *NAMES,
    *MEETINGS,
    *SENDING,
    *RECEIVING,
    *GOODBYES,
    *CLOCKS,
    *BYTEWISE,
    *SURFACE,
)
