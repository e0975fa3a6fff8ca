"""The ends of the reference, of messages and of bytes: one condition a connection."""

from __future__ import annotations

import math
import operator
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.conformance.reference import Ticket

__all__ = ["Channel", "End", "HungUpError", "limit_of"]


class HungUpError(ConnectionError):
    """The end is disconnected."""

    side = "local"
    reason: str | None = None


def limit_of(timeout: float | None) -> float | None:
    """Return a timeout in the form that `threading` takes."""
    if timeout is None:
        return None
    if math.isnan(timeout) or timeout < 0:
        raise ValueError("a timeout is not negative")
    return None if timeout > threading.TIMEOUT_MAX else timeout


def _range(view: memoryview, offset: Any, length: Any) -> memoryview:
    if isinstance(offset, bool) or isinstance(length, bool):
        raise TypeError("a bool is no number here")
    offset = operator.index(offset)
    length = len(view) - offset if length is None else operator.index(length)
    if not (offset >= 0 <= length and offset + length <= len(view)):
        raise ValueError(f"{offset} + {length} is outside of {len(view)}")
    return view[offset : offset + length]


def _copy(data: Any, offset: Any, length: Any) -> bytes:
    """Return the range as bytes; no view of the caller's buffer outlives this call."""
    with memoryview(data) as view:
        if not view.c_contiguous:
            raise TypeError("a view with gaps")
        with view.cast("B") if view.nbytes else view as flat:
            return bytes(_range(flat, offset, length))


class Half:
    """Shared by both kinds of end: the peer, the states, the wait."""

    def __init__(self, owner: Ticket, peer: Ticket, port: int, capacity: int) -> None:
        self._facts = (owner.caller.name, peer.caller.name, port, capacity)
        self._limit = owner.caller.limit
        self._closed = False
        self._cause: BaseException | None = None
        self._inbound: Any = None
        self._changed: threading.Condition
        self._peer: Self

    @classmethod
    def pair(cls, acceptor: Ticket, connector: Ticket, port: int) -> tuple[Self, Self]:
        """Return both ends of a new connection."""
        left = cls(acceptor, connector, port, acceptor.capacity)
        right = cls(connector, acceptor, port, acceptor.capacity)
        left._changed = right._changed = threading.Condition()
        left._peer, right._peer = right, left
        return left, right

    local_name = property(lambda self: self._facts[0])
    remote_name = property(lambda self: self._facts[1])
    port = property(lambda self: self._facts[2])
    capacity = property(lambda self: self._facts[3])
    pending = property(lambda self: len(self._inbound))
    closed = property(lambda self: self.disconnected())
    remote_disconnected = property(lambda self: self._peer._closed)

    def disconnected(self) -> bool:
        """Return whether this end is disconnected."""
        with self._changed:
            return self._gone()

    def disconnect(self, error: BaseException | None = None) -> None:
        """Disconnect this end."""
        with self._changed:
            if not self._closed:
                self._closed, self._cause = True, error
            self._inbound.clear()
            self._changed.notify_all()

    close = disconnect

    def _gone(self) -> bool:
        return self._closed or (self._peer._closed and not self._inbound)

    def _alone(self) -> bool:
        return self._peer._closed

    def _full(self) -> bool:
        return len(self._peer._inbound) >= self._facts[3]

    def _wait(self, ready: Callable[[], bool], limit: float | None) -> None:
        """Wait until it is ready or this end is disconnected; raise in that case."""
        self._changed.wait_for(lambda: self._gone() or ready(), limit)
        if self._gone():
            raise self._error()
        if not ready():
            raise TimeoutError("too late")

    def _error(self) -> HungUpError:
        cause = self._cause if self._closed else self._peer._cause
        error = HungUpError("disconnected")
        error.side = "local" if self._closed else "remote"
        error.reason = None if cause is None else str(cause)
        error.__cause__ = cause
        return error


class End(Half):
    """One end of a connection that carries messages."""

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self._inbound: deque[bytes] = deque()

    def send(
        self,
        data: Any,
        offset: Any = 0,
        length: Any = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Send a range of data as one message."""
        message = _copy(data, offset, length)
        if self._limit is not None and len(message) > self._limit:
            raise ValueError("too large")
        limit = limit_of(timeout)
        with self._changed:
            if self._gone():
                raise self._error()
            if self._peer._closed:
                return
            waited = self._full()
            self._wait(lambda: not self._full() or self._peer._closed, limit)
            if waited and self._alone():
                raise self._error()
            self._peer._inbound.append(message)
            self._changed.notify_all()

    def receive(self, *, timeout: float | None = None) -> bytes:
        """Receive the oldest message."""
        limit = limit_of(timeout)
        with self._changed:
            self._wait(lambda: bool(self._inbound), limit)
            message = self._inbound.popleft()
            self._changed.notify_all()
            return message

    def send_nowait(self, data: Any) -> None:
        """Send if possible without waiting."""
        self.send(data, timeout=0)

    def receive_nowait(self) -> bytes:
        """Receive if possible without waiting."""
        return self.receive(timeout=0)

    def send_many(self, messages: Iterable[Any]) -> int:
        """Send one after the other; return how many were sent."""
        sent = 0
        for message in messages:
            try:
                self.send(message)
            except HungUpError:
                if not sent:
                    raise
                break
            sent += 1
        return sent

    def receive_many(self, limit: int | None = None) -> list[bytes]:
        """Receive all messages that have arrived, at least one."""
        messages = [self.receive()]
        with self._changed:
            while self._inbound and len(messages) != limit:
                messages.append(self._inbound.popleft())
            self._changed.notify_all()
        return messages

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                yield self.receive()
            except HungUpError as error:
                if error.__cause__ is not None:
                    raise
                return


class Channel(Half):
    """One end of a connection that carries bytes."""

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self._inbound = bytearray()

    def write(self, buffer: Any, offset: int, length: int) -> int:
        """Write the part of a range that fits, at least one byte."""
        data = bytes(_range(memoryview(buffer), offset, length))
        with self._changed:
            if self._gone():
                raise self._error()
            if self._peer._closed or not data:
                return length
            waited = self._full()
            self._wait(lambda: not self._full() or self._peer._closed, None)
            if waited and self._alone():
                raise self._error()
            taken = data[: self._facts[3] - len(self._peer._inbound)]
            self._peer._inbound += taken
            self._changed.notify_all()
            return len(taken)

    def read(self, buffer: Any, offset: int, length: int) -> int:
        """Read the bytes that have arrived into a range, at least one byte."""
        target = _range(memoryview(buffer), offset, length)
        if not length:
            return 0
        with self._changed:
            self._wait(lambda: bool(self._inbound), None)
            count = min(length, len(self._inbound))
            target[:count] = self._inbound[:count]
            del self._inbound[:count]
            self._changed.notify_all()
            return count

    def write_all(self, data: bytes) -> None:
        """Write the whole."""
        written = 0
        while written < len(data):
            written += self.write(data, written, len(data) - written)

    def read_exactly(self, size: int) -> bytes:
        """Read that many bytes."""
        buffer, done = bytearray(size), 0
        while done < size:
            try:
                done += self.read(buffer, done, size - done)
            except HungUpError as error:
                error.partial = bytes(buffer[:done])  # type: ignore[attr-defined] # ad hoc
                raise
        return bytes(buffer)
