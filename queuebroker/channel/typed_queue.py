"""`TypedQueue`: objects of one type over a `MessageQueue`, as MessagePack (QB-PY-12).

A thin face: it encodes before a send and decodes after a receive. The queue alone
orders, delivers and waits, so that both faces of one end may be used at once. The first
`MessageQueue.of` loads msgspec, not the import of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from queuebroker.arguments import Buffer, snapshot, wrong_type
from queuebroker.closable import Closable
from queuebroker.errors import PayloadError

if TYPE_CHECKING:
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["TypedQueue"]

T = TypeVar("T")


class TypedQueue(Closable, Generic[T]):
    """One end of a connection, for objects of type T; created by `MessageQueue.of`.

    Each object is one message. An object that cannot be encoded is refused before
    anything is sent. The sender does not check that the object *is* a T, which would
    cost a decoding for each send. A type checker reports the error; otherwise the
    receiver does.

    There is no ``receive_many``: if the third of five messages does not decode, the two
    before it could neither be returned nor go back into the queue. Take several with
    ``queue.receive_many()`` and `decode` them. Do the same with asyncio and with
    several queues, whose functions accept ends, not faces: see
    docs/how-to/send-objects.md.

    Threads: every method may be called from any. There is no lock here, and no mutable
    state: encoder and decoder keep none between calls (msgspec, issue 401). The sending
    thread encodes and the receiving thread decodes an object, outside of the queue's
    lock. No thread may change the object while it is encoded.

    As a context manager it disconnects on leaving. Its `queue` has the remaining
    attributes, such as names, status and counters.
    """

    __slots__ = ("__weakref__", "_packed", "_queue", "_unpacked", "_wanted")

    def __init__(self, queue: MessageQueue, wanted: Any) -> None:
        # Checked by its kind: `MessageQueue` creates these faces, so its module imports
        # this one.
        if getattr(queue, "_kind", None) != "MessageQueue":
            raise wrong_type("queue", "a MessageQueue", queue)
        self._queue: Final = queue
        self._wanted: Final = _name_of(wanted)
        packed, unpacked = _codec(wanted, self._wanted)
        self._packed: Final[Callable[[T], bytes]] = packed
        self._unpacked: Final[Callable[[Buffer], T]] = unpacked

    @property
    def queue(self) -> MessageQueue:
        """The underlying end, for whole messages of bytes."""
        return self._queue

    # Sending.

    def send(self, obj: T, *, timeout: float | None = None) -> None:
        """Send an object as one message; otherwise as `MessageQueue.send`.

        Raises:
            TypeError: it contains an object that MessagePack cannot represent.
            ValueError: it contains a value that MessagePack cannot represent: an int of
                more than 64 bits, a list that holds itself; nothing was sent.
            MessageTooLargeError: longer, encoded, than the connection allows.
            DisconnectedQueueError, SendTimeoutError: as `MessageQueue.send`.
        """
        self._queue.send(self.encode(obj), timeout=timeout)

    def send_nowait(self, obj: T) -> None:
        """Send with ``timeout=0``."""
        self.send(obj, timeout=0)

    def send_many(self, objs: Iterable[T], *, timeout: float | None = None) -> int:
        """Send objects in order; return how many of the sends were done.

        As `MessageQueue.send_many`: an object that cannot be encoded ends the call with
        the count so far, and raises only if it is the first.
        """
        return self._queue.send_many(map(self.encode, objs), timeout=timeout)

    # Receiving.

    def receive(self, *, timeout: float | None = None) -> T:
        """Remove the oldest message and return it as a T.

        Raises:
            PayloadError: it does not decode; its bytes are in ``payload``, and the next
                receive takes the next message.
            DisconnectedQueueError, ReceiveTimeoutError: as `MessageQueue.receive`.
        """
        return self.decode(self._queue.receive(timeout=timeout))

    def receive_nowait(self) -> T:
        """Receive with ``timeout=0``."""
        return self.receive(timeout=0)

    def __iter__(self) -> Iterator[T]:
        """Yield objects until the end is disconnected, as `MessageQueue` does.

        A message that does not decode raises `PayloadError`. After that, continue with
        the same iterator or with a new loop.
        """
        # Not a generator: the error would end it, and its next() would report a
        # disconnect that never happened.
        return map(self.decode, self._queue)

    @property
    def pending(self) -> int:
        """Number of arrived messages that neither face has received yet."""
        return self._queue.pending

    # Objects to bytes and back.

    def encode(self, obj: T) -> bytes:
        """Return the message that `send` would send for an object.

        Raises:
            TypeError: it contains an object that MessagePack cannot represent.
            ValueError: it contains a value that MessagePack cannot represent.
        """
        try:
            return self._packed(obj)
        except TypeError as error:
            msg = f"cannot send {type(obj).__name__}: {error}"
            raise TypeError(msg) from error
        except Exception as error:
            # Each failure, from an overflow to an unset field, has its own class. All
            # become the one class that `send_many` accepts as a wrong message.
            msg = f"cannot send {type(obj).__name__}: {error}"
            raise ValueError(msg) from error

    def decode(self, payload: Buffer) -> T:
        """Decode a message of this connection into a T, as `receive` does.

        Raises:
            PayloadError: it does not decode; its bytes are in ``payload``.
            TypeError: ``payload`` is not bytes-like, or not contiguous.
        """
        try:
            return self._unpacked(payload)
        except Exception as error:
            # Not only msgspec's own errors: bad UTF-8, lists nested too deep, and any
            # error of a class's __post_init__ arrive unchanged. The message is already
            # out of the queue, so an uncaught error would lose it.
            queue, message = self._queue, snapshot(payload, 0, None, None)
            msg = (
                f"cannot receive: message of {len(message)} bytes from"
                f" {queue.remote_name!r} port {queue.port} is no {self._wanted}:"
                f" {str(error) or type(error).__name__}"
            )
            raise PayloadError(msg, payload=message) from error

    # Disconnecting.

    def disconnect(self, error: BaseException | None = None) -> None:
        """Disconnect, as `MessageQueue.disconnect`."""
        self._queue.disconnect(error)

    def close(self) -> None:
        """The same as `disconnect()`."""
        self._queue.disconnect()

    def disconnected(self) -> bool:
        """Return True if neither sending nor receiving can succeed again."""
        return self._queue.disconnected()

    @property
    def closed(self) -> bool:
        """The same as `disconnected()`, as a property."""
        return self._queue.disconnected()

    # Representation.

    def __repr__(self) -> str:
        return f"<TypedQueue of {self._wanted} on {self._queue!r}>"


def _name_of(wanted: Any) -> str:
    return wanted.__qualname__ if isinstance(wanted, type) else repr(wanted)


def _codec(
    wanted: Any, name: str
) -> tuple[Callable[[Any], bytes], Callable[[Buffer], Any]]:
    """Return the encoder and the decoder for a ``wanted``.

    Raises:
        TypeError: msgspec cannot decode one.
        ImportError: msgspec is not installed.
    """
    try:
        from msgspec import inspect, msgpack  # noqa: PLC0415 - loaded where used
    except ImportError as error:
        msg = (
            f"cannot make a queue of {name}: the package msgspec is not installed;"
            " install it, or send bytes (it has no build for Python 3.13 without the"
            " global interpreter lock)"
        )
        raise ImportError(msg) from error

    try:
        decoder = msgpack.Decoder(wanted)
        unknown = _unknown_to_msgspec(inspect.type_info(wanted))
    except Exception as error:
        # Annotations are evaluated: a missing name, or any other error.
        msg = f"cannot make a queue of {name}: {error}"
        raise TypeError(msg) from error
    if unknown:
        msg = f"cannot make a queue of {name}: nothing decodes to {unknown[0]}"
        raise TypeError(msg)
    return msgpack.Encoder().encode, decoder.decode


def _unknown_to_msgspec(info: object) -> list[str]:
    """Return the names of the classes in a type that msgspec leaves to hooks.

    This package has no hooks. The decoder accepts such a class silently and then
    refuses every message.
    """
    from msgspec import inspect  # noqa: PLC0415 - loaded where used

    unknown: list[str] = []
    seen: set[int] = set()  # a struct may contain structs of its own kind
    todo = [info]
    while todo:
        node = todo.pop()
        if isinstance(node, inspect.CustomType):
            if node.cls is not object:  # `object` is how Any is represented
                unknown.append(_name_of(node.cls))
        elif isinstance(node, (inspect.Type, inspect.Field)) and id(node) not in seen:
            seen.add(id(node))
            todo += [getattr(node, field) for field in node.__struct_fields__]
        elif isinstance(node, tuple):
            todo += node
    return unknown
