"""`WireError`: a peer violated the protocol."""

from __future__ import annotations

from bus.errors.bus_error import BusError

__all__ = ["WireError"]


class WireError(BusError):
    """A peer violated the protocol; the text names the violation. No state changed."""
