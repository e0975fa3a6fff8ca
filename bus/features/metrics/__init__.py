"""Metrics of a bus for Prometheus: the counters of each process, read at the scrape.

The counters are those of `Bus.inspect`, which each process keeps in any case. So a
message costs nothing more, whether its bus is scraped or not.

families    the names of the metrics, and their values, from the report of a process
collector   the metrics of this process, in the client library of Prometheus
verb        ``bus metrics``: those of all processes of a machine, over HTTP
"""
