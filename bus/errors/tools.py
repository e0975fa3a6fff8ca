"""The errors of the tools: journals, the pipeline and the demo."""

from __future__ import annotations

from bus.errors.bus_error import BusError

__all__ = ["DemoError", "JournalError", "PipelineError"]


class JournalError(BusError):
    """A folder holds no readable journal, or a file of one is unreadable.

    Not raised for a journal that is merely incomplete: that is a verdict (J1).
    """


class PipelineError(BusError):
    """Spark cannot run here, or cannot write its output; one line names the remedy."""


class DemoError(BusError):
    """The demo cannot start, read its input or write; the text gives the reason."""
