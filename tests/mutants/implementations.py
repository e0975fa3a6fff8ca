"""Implementations with a fault that ours cannot have, as factories for the suite.

Each is the reference implementation with one fault planted in it.
"""

from __future__ import annotations

from tests.conformance.faults import FAULTS

__all__ = ["prefetching", "prefixed", "signed_length"]

_by_number = {fault.name.partition("_")[0]: fault for fault in FAULTS}

signed_length = _by_number["M4"].factory()
prefetching = _by_number["M21"].factory()
prefixed = _by_number["M22"].factory()
