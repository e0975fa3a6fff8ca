"""`collector`: the metrics of the buses of this process, for a registry of Prometheus.

It alone imports the client library, with the verb.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bus.api.bus import Bus
from bus.features.metrics.families import COMMON, FAMILIES, UP, values
from bus.features.watching.inspection import report

if TYPE_CHECKING:
    from bus.features.metrics.families import Family, Report

__all__ = ["BusCollector", "collector", "described", "metrics"]

_Sample: TypeAlias = "tuple[Family, tuple[str, ...], float]"


class BusCollector(Collector):
    """A collector of buses; see `collector`."""

    def __init__(self, buses: Sequence[Bus], *, per_task: bool) -> None:
        self._buses: Final = buses
        self._per_task: Final = per_task

    def describe(self) -> Iterable[Metric]:
        """Return the names of all metrics: to register it, no counter is read."""
        return described(per_task=self._per_task)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics; none of a bus that is closed, or inherited by a fork."""
        states = [each._lifetime for each in self._buses]
        reports = [
            report(each._exchange, each.name, each._threads.managers(), 0.0)
            for each, state in zip(self._buses, states, strict=True)
            if not (state.closed or state.foreign)
        ]
        return metrics(reports, per_task=self._per_task)


def collector(*buses: Bus, per_task: bool = False) -> BusCollector:
    """Return a collector of the metrics of buses, as far as this process counts them.

    Register it: ``prometheus_client.REGISTRY.register(collector(bus))``. At each scrape
    it reads the counters of `Bus.inspect`, in the scraping thread. A registry takes one
    such collector, for all buses of the process. A closed bus has no metrics.

    per_task: also have series for each public task, each specification that such a task
      subscribes to, and each link. Their number grows with these.
    """
    return BusCollector(buses, per_task=per_task)


def described(*, per_task: bool) -> list[Metric]:
    """Return all metrics without values."""
    return [_empty(each) for each in FAMILIES if per_task or not each.per_task]


def metrics(
    reports: Iterable[Report],
    absent: Iterable[tuple[str, str, str]] = (),
    *,
    per_task: bool,
) -> list[Metric]:
    """Return the metrics of some processes, those of one name together.

    absent: bus, machine and name of each process that did not report.
    """
    found: dict[str, Any] = {}
    for family, labels, value in _samples(reports, absent, per_task=per_task):
        if family.name not in found:
            found[family.name] = _empty(family)
        found[family.name].add_metric(labels, value)
    return [*found.values()]


def _samples(
    reports: Iterable[Report],
    absent: Iterable[tuple[str, str, str]],
    *,
    per_task: bool,
) -> Iterator[_Sample]:
    for told in reports:
        yield from values(told, per_task=per_task)
    for process in absent:
        yield UP, process, 0


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    counts = family.kind == "counter"
    made = CounterMetricFamily if counts else GaugeMetricFamily
    return made(family.name, family.text, labels=[*COMMON, *family.labels])
