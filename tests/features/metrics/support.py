"""Metrics as a scraper reads them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from bus.features.metrics.families import ACCEPTED, COMMON
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

__all__ = ["Scrape", "families_of", "scraped"]

_KINDS: Final = ("command", "notification")
_REMOTE: Final = ("taken", "returned", "failed", "dropped", "in_doubt")


def families_of(text: str) -> Iterator[Metric]:
    """Parse an exposition."""
    yield from text_string_to_metric_families(text)


def scraped(url: str) -> Scrape:
    """Return the metrics at a URL."""
    with urlopen(url, timeout=LIMIT_S) as answer:
        return Scrape(answer.read().decode())


class Scrape:
    """One scrape: the value of each series.

    counters: the names of the series that may only rise.
    """

    def __init__(self, text: str) -> None:
        self._values: dict[str, dict[frozenset[tuple[str, str]], float]]
        self._values = defaultdict(dict)
        self.counters: set[str] = set()
        for family in families_of(text):
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                assert labels not in self._values[sample.name], sample
                self._values[sample.name][labels] = sample.value
                if family.type == "counter":
                    self.counters.add(sample.name)

    def __call__(self, name: str, **labels: str) -> float:
        """Return the value of one series; its common labels may be left out."""
        [value] = self.find(name, **labels)
        return value

    def find(self, name: str, **labels: str) -> list[float]:
        """Return the values of all series with these labels."""
        wanted = frozenset(labels.items())
        return [each for had, each in self._values[name].items() if wanted <= had]

    @property
    def series(self) -> int:
        """The number of series."""
        return sum(map(len, self._values.values()))

    @property
    def processes(self) -> set[str]:
        """The processes that have answered."""
        up = self._values["bus_process_up"]
        return {dict(labels)["process"] for labels, value in up.items() if value}

    def unbalanced(self) -> list[str]:
        """Return the accounts that do not balance, with the process of each."""
        return [
            f"{process}: {account}"
            for process in self.processes
            for account in self._unbalanced(process)
        ]

    def _unbalanced(self, process: str) -> Iterator[str]:
        for kind in _KINDS:
            which: dict[str, Any] = {"process": process, "kind": kind}
            ended = [
                *(self(f"bus_messages_{end}_total", **which) for end in _ENDS),
                *(
                    self("bus_messages_dropped_total", **which, reason=reason)
                    for reason in ACCEPTED
                ),
                self("bus_unread_messages", **which),
            ]
            if sum(ended) != self("bus_messages_accepted_total", **which):
                yield f"{kind}s: {ended}"
            if min(ended) < 0:
                yield f"{kind}s below 0: {ended}"
        remote = "bus_remote_messages"
        ends = [self(f"{remote}_{end}_total", process=process) for end in _REMOTE]
        ends.append(self(f"{remote}_in_transit", process=process))
        if sum(ends) != self(f"{remote}_posted_total", process=process):
            yield f"for other processes: {ends}"

    def fallen(self, before: Scrape) -> list[str]:
        """Return the counters that are lower than in an earlier scrape."""
        return [
            f"{name}{dict(labels)}: {before._values[name][labels]} -> {value}"
            for name in self.counters
            for labels, value in self._values[name].items()
            if value < before._values[name].get(labels, 0)
        ]

    def labels(self, name: str) -> set[str]:
        """Return the names of the labels of a metric, without the common ones."""
        return {
            label
            for labels in self._values[name]
            for label, _ in labels
            if label not in COMMON
        }


_ENDS: Final = ("delivered", "returned")
