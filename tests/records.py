"""`Recorder`: an observer that stores its events for tests to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.support import until

if TYPE_CHECKING:
    from queuebroker import Operation, Reason

__all__ = ["Recorder", "Row"]


class Row(NamedTuple):
    """The arguments of an observer, without the waiting time.

    channel: numbered from 1 in the order of first occurrence.
    """

    operation: Operation
    channel: int
    direction: int
    seq: int
    size: int
    depth: int
    local: str
    remote: str
    port: int
    reason: Reason


class Recorder:
    """Stores its events as rows.

    fatal: raise at the first operation of that kind.
    """

    def __init__(self, fatal: Operation | None = None) -> None:
        self.rows: list[Row] = []
        self._fatal = fatal
        self._channels: dict[int, int] = {0: 0}

    def __call__(
        self,
        operation: Operation,
        channel: int,
        direction: int,
        seq: int,
        size: int,
        depth: int,
        waited_ns: int,
        local: str,
        remote: str,
        port: int,
        reason: Reason,
        /,
    ) -> None:
        number = self._channels.setdefault(channel, len(self._channels))
        self.rows.append(
            Row(
                operation,
                number,
                direction,
                seq,
                size,
                depth,
                local,
                remote,
                port,
                reason,
            )
        )
        assert waited_ns >= 0
        if operation is self._fatal:
            raise RuntimeError(f"no {operation.name} can be recorded")

    @property
    def operations(self) -> list[Operation]:
        """The operations so far, in order."""
        return [row.operation for row in self.rows]

    def forget(self) -> None:
        """Drop all rows so far."""
        self.rows.clear()

    def wait_for(self, operation: Operation) -> None:
        """Wait until an operation of that kind was reported."""
        until(lambda: operation in self.operations, f"no {operation.name} was told")
