"""The metrics of a bus for Prometheus; it needs the extra ``metrics``.

::

    from prometheus_client import REGISTRY, start_http_server

    from bus import open_bus
    from bus.metrics import collector

    with open_bus("house") as bus:
        REGISTRY.register(collector(bus))
        start_http_server(9464, addr="127.0.0.1")
"""

from bus.features.metrics.collector import BusCollector, collector

__all__ = ["BusCollector", "collector"]
