"""Every exception of the bus, by who can act on it.

::

    BusError
    ├── JournalError    a record of traffic cannot be read; names file and byte
    ├── PipelineError   Spark cannot run here, or not on what it was given
    ├── DemoError       the demo cannot be run on what it was given
    └── WireError       a peer said what no correct peer says
"""

from __future__ import annotations

__all__ = ["BusError", "DemoError", "JournalError", "PipelineError", "WireError"]


class BusError(Exception):
    """Root of every exception this package defines."""


class JournalError(BusError):
    """A folder holds no journal that can be read, or a file of one cannot be.

    Not raised for a journal that is merely incomplete: that is a verdict (J1).
    """


class DemoError(BusError):
    """The demo has nothing to read or nowhere to write; the text says which."""


class PipelineError(BusError):
    """Spark cannot run here, or has nowhere to write; one line says what to do."""


class WireError(BusError):
    """A peer said what no correct peer says; the text names it. Nothing was changed."""
