"""Implementations with a fault that ours cannot have, as factories for the suite.

Each is the reference implementation with one fault planted in it.
"""

from __future__ import annotations

from tests.conformance.variants import VARIANTS

__all__ = ["prefetching", "prefixed", "signed_length"]

_by_fault = {variant.name.partition("_")[0]: variant for variant in VARIANTS}

signed_length = _by_fault["M4"].factory()
prefetching = _by_fault["M21"].factory()
prefixed = _by_fault["M22"].factory()
