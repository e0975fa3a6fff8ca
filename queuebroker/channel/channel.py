"""`Channel`: one end of a full-duplex stream of bytes, the underlying primitive.

Two `CircularBuffer`, crossed; no message boundaries are kept (QB-CHAN-3). The rules of
disconnecting are those of a MessageQueue, from the same tables, with bytes for messages
(QB-CHAN-4).
"""

from __future__ import annotations

from typing import ClassVar

from queuebroker import _sync
from queuebroker.arguments import Buffer, byte_range, deadline_after, flat_view, index
from queuebroker.channel.circular_buffer import CircularBuffer
from queuebroker.channel.connection import Connection
from queuebroker.channel.end import End
from queuebroker.channel.side import other_side
from queuebroker.channel.status import Verdict
from queuebroker.errors import (
    DisconnectedChannelError,
    DisconnectedError,
    IncompleteReadError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from queuebroker.observer import Operation, Reason

__all__ = ["Channel"]


class Channel(End[Connection[CircularBuffer]]):
    """A byte stream both ways, in order, without loss while connected.

    A `Broker` creates the ends; every method may be called from any thread. ``timeout``
    is in seconds: None waits forever, 0 tries once.
    """

    __slots__ = ()

    _kind: ClassVar[str] = "Channel"
    _error: ClassVar[type[DisconnectedError]] = DisconnectedChannelError

    def write(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Write 1 to ``length`` bytes from ``offset`` on; return how many (QB-CHAN-1).

        Waits only while no byte fits. A length of 0 returns 0 at once. If the peer has
        disconnected but bytes are left to read here, all are dropped.

        Raises:
            DisconnectedChannelError: this end is disconnected, or either end
                disconnected during the wait; nothing was written.
            SendTimeoutError: no room in time.
            TypeError, ValueError: wrong arguments, detected before anything else.
        """
        view = flat_view(data)
        start, stop = byte_range(len(view), offset, length)
        part = view[start:stop]
        connection, side = self._connection, self._side
        peer = other_side(side)
        waited = False
        count = 0

        def attempt(waited_ns: int) -> Verdict:
            nonlocal waited, count
            verdict = connection.send_verdict(side, waited=waited)
            flow = connection.flows[peer]
            before = 0
            while verdict is Verdict.DO:
                before = flow.accepted
                count = flow.buffer.write_locked(part)
                if count or not part:
                    break
                # A signal handler has written or disconnected since the check.
                verdict = connection.send_verdict(side, waited=waited)
            if verdict is Verdict.WAIT:
                waited = True
                return verdict if part else Verdict.DO
            if verdict is Verdict.DO:
                connection.note(
                    Operation.WRITE,
                    side,
                    peer,
                    seq=before,
                    size=count,
                    waited_ns=waited_ns,
                )
            elif verdict is Verdict.DROP:
                count = len(part)
                flow.half_disconnected += count
                reason = Reason.HALF_DISCONNECTED
                connection.note(Operation.DROP, side, peer, size=count, reason=reason)
            else:
                connection.note_close_seen_locked(side)
            return verdict

        verdict = self._act(attempt, timeout, sends=True)
        if verdict is Verdict.WAIT:
            msg = f"cannot write: {self.remote_name!r} port {self.port} stayed full"
            raise SendTimeoutError(msg)
        if verdict is Verdict.REFUSE:
            raise self._refusal("write")
        return count

    def read(
        self,
        buffer: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Fill 1 to ``length`` bytes of ``buffer`` from ``offset`` on (QB-CHAN-2).

        Returns the number of bytes; waits only while there is none. A length of 0
        returns 0 at once. Bytes outside the range stay unchanged.

        Raises:
            DisconnectedChannelError: disconnected and nothing is left.
            ReceiveTimeoutError: nothing arrived in time.
            TypeError, ValueError: wrong arguments, detected before anything else.
        """
        view = flat_view(buffer)
        if view.readonly and view.nbytes:
            msg = "cannot read: buffer is read-only"
            raise TypeError(msg)
        start, stop = byte_range(len(view), offset, length)
        part = view[start:stop]
        connection, side = self._connection, self._side

        count = 0

        def attempt(waited_ns: int) -> Verdict:
            nonlocal count
            verdict = connection.receive_verdict(side)
            flow = connection.flows[side]
            before = 0
            while verdict is Verdict.DO:
                before = flow.received
                count = flow.buffer.read_locked(part)
                if count or not part:
                    break
                # A signal handler has read or disconnected since the check.
                verdict = connection.receive_verdict(side)
            if verdict is Verdict.WAIT and not part:
                return Verdict.DO
            if verdict is Verdict.DO:
                connection.note(
                    Operation.READ,
                    side,
                    side,
                    seq=before,
                    size=count,
                    waited_ns=waited_ns,
                )
            elif verdict is Verdict.REFUSE:
                connection.note_close_seen_locked(side)
            return verdict

        verdict = self._act(attempt, timeout, sends=False)
        if verdict is Verdict.WAIT:
            msg = (
                f"cannot read: nothing from {self.remote_name!r} port {self.port}"
                f" within {timeout} s"
            )
            raise ReceiveTimeoutError(msg)
        if verdict is Verdict.REFUSE:
            raise self._refusal("read")
        return count

    def write_all(self, data: Buffer, *, timeout: float | None = None) -> None:
        """Write all of ``data``, in as many pieces as it takes (QB-CHAN-7).

        Raises the exceptions of `write`; then a prefix may have been written.
        """
        view = flat_view(data)
        deadline = deadline_after(timeout)
        done = 0
        while done < len(view):
            done += self.write(view, done, timeout=_remaining(deadline))

    def read_exactly(self, count: int, *, timeout: float | None = None) -> bytes:
        """Read ``count`` bytes, in as many pieces as it takes (QB-CHAN-7).

        Raises:
            IncompleteReadError: the stream ended first; ``partial`` has the bytes read.
            ReceiveTimeoutError: too few in time; ``partial`` has the bytes read.
            ValueError: count below 0.
        """
        size = index("count", count)
        if size < 0:
            msg = f"count must be >= 0, got {size}"
            raise ValueError(msg)
        deadline = deadline_after(timeout)
        content = bytearray(size)
        done = 0
        try:
            while done < size:
                done += self.read(content, done, timeout=_remaining(deadline))
        except ReceiveTimeoutError as error:
            error.partial = bytes(content[:done])
            raise
        except DisconnectedChannelError as error:
            short = IncompleteReadError(
                f"{error}, after {done} of {size} bytes",
                side=error.side,
                reason=error.reason,
            )
            short.partial = bytes(content[:done])
            raise short from error.__cause__
        return bytes(content)


def _remaining(deadline: float | None) -> float | None:
    """Return the seconds until a deadline, 0 if it has passed."""
    return None if deadline is None else max(0.0, deadline - _sync.monotonic())
