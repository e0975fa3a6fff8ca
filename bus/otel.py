"""Trace contexts for OpenTelemetry; it needs the extra ``otel``.

::

    from bus.otel import instrument

    instrument()  # once, at the start of each process
"""

from bus.features.otel.tracing import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]
