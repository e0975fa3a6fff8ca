"""`Gateway`: publishes the batches of a spool as notifications on a bus.

It is a process of its own, `bus pipeline gateway`, so that a query which is killed and
started again finds each batch either published or waiting. It claims a batch before it
publishes the first message: if it is killed then, it may lose messages of this batch,
as the bus may lose messages of any process that is killed, but repeats none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.errors import AccessDeniedError, BusError, NameTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.api.bus import Bus
    from bus.api.task import Task
    from bus.pipeline.spool import Batch, Spool

__all__ = ["Gateway"]


class Gateway:
    """Publishes the ready batches of a spool; the caller holds the lock of the spool.

    Each topic is a task of the calling thread, and each row a notification of it: a map
    of ``value``, ``key``, ``query``, ``batch`` and ``row``. The last three identify
    the row: none is published twice.

    on_problem: called with a line about each batch that waits, or lacks messages.
    """

    def __init__(
        self, spool: Spool, bus: Bus, on_problem: Callable[[str], None]
    ) -> None:
        self._spool: Final = spool
        self._bus: Final = bus
        self._on_problem: Final = on_problem
        self._thread: Final = bus.here()
        self._topics: dict[str, Task] = {}
        self._reported: set[str] = set()
        for batch in spool.interrupted():
            on_problem(
                f"{_name(batch)} was published in part, and is not repeated: the"
                " gateway was ended meanwhile"
            )
            spool.finish(batch)

    def publish(self) -> int:
        """Publish all ready batches; return the number of messages."""
        return sum(map(self._publish, self._spool.ready()))

    def _publish(self, batch: Batch) -> int:
        # Before the claim: a batch whose topic cannot be registered waits.
        if not self._has_topics(batch) or not self._spool.claim(batch):
            return 0
        count = refused = 0
        for row, (topic, key, value) in enumerate(self._rows(batch)):
            message = {"value": value, "key": key, "query": batch.query}
            message |= {"batch": batch.number, "row": row}
            try:
                self._topics[topic].notify(message)
                count += 1
            except BusError as error:
                refused += 1
                last = f"row {row}: {error}"
        if refused:
            self._on_problem(
                f"{refused} of the rows of {_name(batch)} refused; the last, {last}"
            )
        self._spool.finish(batch)
        return count

    def _has_topics(self, batch: Batch) -> bool:
        topics = {topic for topic, _, _ in self._rows(batch)}
        for topic in sorted(topics - self._topics.keys()):
            try:
                self._topics[topic] = self._bus.register(topic, thread=self._thread)
            except (NameTakenError, AccessDeniedError) as error:
                if topic not in self._reported:
                    self._reported.add(topic)
                    self._on_problem(f"{_name(batch)} waits: {error}")
                return False
        return True

    def _rows(self, batch: Batch) -> Iterator[tuple[str, Any, Any]]:
        for rows in self._spool.rows(batch):
            columns = (
                rows.column(name).to_pylist() for name in ("topic", "key", "value")
            )
            yield from zip(*columns, strict=True)


def _name(batch: Batch) -> str:
    return f"batch {batch.number} of query {batch.query}"
