"""Trace contexts for OpenTelemetry; it needs the extra ``otel``.

::

    from bus.otel import instrument

    instrument()  # once, at the start of each process
"""

from bus.aio.task import Task
from bus.features.otel.tracing import (
    SLOTS,
    call_in_coroutine,
    instrument,
    uninstrument,
)

__all__ = ["instrument", "uninstrument"]

SLOTS[Task, "call"] = call_in_coroutine
