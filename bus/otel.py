"""Trace contexts for OpenTelemetry; it needs the extra ``otel``.

::

    from bus.otel import instrument

    instrument()  # once, at the start of each process
"""

import bus.aio.tracing  # noqa: F401 # adds its slots
from bus.features.otel.tracing import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]
