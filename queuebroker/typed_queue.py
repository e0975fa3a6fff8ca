"""`TypedQueue`: objects of one type over a `MessageQueue`, as MessagePack (QB-PY-12).

A thin face: it encodes before it sends and decodes what it has received. What is sent
when, to whom, and who waits is decided by the queue alone, so that both faces of one
end may be used at once. msgspec is loaded with the first `MessageQueue.of`, not with
the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from queuebroker.arguments import snapshot, wrong_type
from queuebroker.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

    from queuebroker.message_queue import MessageQueue

__all__ = ["TypedQueue"]

T = TypeVar("T")


class TypedQueue(Generic[T]):
    """One end of a connection, for objects of type T; made by `MessageQueue.of`.

    Each object is one message. An object that cannot be encoded is refused before
    anything is sent; whether it *is* a T is not looked at, since that would cost a
    decoding for each send: a type checker sees it, and otherwise the receiver is told.

    There is no ``receive_many``: where the third of five messages does not decode, the
    two before it could neither be returned nor go back into the queue. Take many by
    ``queue.receive_many()`` and `decode` them yourself. So do with asyncio and with
    several queues, which take ends and not faces: see docs/how-to/send-objects.md.

    Threads: every method may be called from any. There is no lock here, and nothing
    that changes: encoder and decoder keep no state between calls (msgspec, issue 401).
    An object is encoded in the thread that sends it and decoded in the one that
    receives it, outside of the queue's lock; nobody may change it while it is encoded.

    Used as a context manager it disconnects on leaving. What it does not have, such as
    names, status and books, its `queue` has.
    """

    __slots__ = ("__weakref__", "_packed", "_queue", "_unpacked", "_wanted")

    def __init__(self, queue: MessageQueue, wanted: Any) -> None:
        # Asked by its kind: the class `MessageQueue` makes these, and so stands above.
        if getattr(queue, "_kind", None) != "MessageQueue":
            raise wrong_type("queue", "a MessageQueue", queue)
        self._queue: Final = queue
        self._wanted: Final = _name_of(wanted)
        packed, unpacked = _codec(wanted, self._wanted)
        self._packed: Final[Callable[[T], bytes]] = packed
        self._unpacked: Final[Callable[[Buffer], T]] = unpacked

    @property
    def queue(self) -> MessageQueue:
        """The end beneath, for whole messages of bytes."""
        return self._queue

    # Sending.

    def send(self, obj: T, *, timeout: float | None = None) -> None:
        """Send an object as one message; the rest is as `MessageQueue.send`.

        Raises:
            TypeError: there is something in it that MessagePack has no form for.
            ValueError: a value has none: an int of more than 64 bits, a list that
                holds itself; nothing was sent.
            MessageTooLargeError: longer, encoded, than the connection allows.
            DisconnectedQueueError, SendTimeoutError: as `MessageQueue.send`.
        """
        self._queue.send(self.encode(obj), timeout=timeout)

    def send_nowait(self, obj: T) -> None:
        """Send with ``timeout=0``."""
        self.send(obj, timeout=0)

    def send_many(self, objs: Iterable[T], *, timeout: float | None = None) -> int:
        """Send objects in order; return how many of the sends were done.

        As `MessageQueue.send_many`: an object that cannot be encoded ends the call
        with the count so far, and raises only if it is the first.
        """
        return self._queue.send_many(map(self.encode, objs), timeout=timeout)

    # Receiving.

    def receive(self, *, timeout: float | None = None) -> T:
        """Remove the oldest message and return it as a T.

        Raises:
            PayloadError: it does not decode; its bytes are in ``payload``, and the
                next receive takes the next message.
            DisconnectedQueueError, ReceiveTimeoutError: as `MessageQueue.receive`.
        """
        return self.decode(self._queue.receive(timeout=timeout))

    def receive_nowait(self) -> T:
        """Receive with ``timeout=0``."""
        return self.receive(timeout=0)

    def __iter__(self) -> Iterator[T]:
        """Yield objects until the end is disconnected, as `MessageQueue` does.

        A message that does not decode raises `PayloadError`; then go on with the same
        iterator or with a new loop.
        """
        # Not a generator: the error would end it, and its next() would tell of a
        # disconnect that never was.
        return map(self.decode, self._queue)

    @property
    def pending(self) -> int:
        """Messages that arrived here and are not received yet, by either face."""
        return self._queue.pending

    # Objects to bytes and back.

    def encode(self, obj: T) -> bytes:
        """Return an object as the message that `send` would send.

        Raises:
            TypeError: there is something in it that MessagePack has no form for.
            ValueError: a value has none.
        """
        try:
            return self._packed(obj)
        except TypeError as error:
            msg = f"cannot send {type(obj).__name__}: {error}"
            raise TypeError(msg) from error
        except Exception as error:
            # From an overflow to a field that was never set, each its own class. One
            # is left for all, which `send_many` knows for a message that is no good.
            msg = f"cannot send {type(obj).__name__}: {error}"
            raise ValueError(msg) from error

    def decode(self, payload: Buffer) -> T:
        """Return the T that a message of this connection stands for, as `receive` does.

        Raises:
            PayloadError: it does not decode; its bytes are in ``payload``.
            TypeError: ``payload`` is not bytes-like, or not contiguous.
        """
        try:
            return self._unpacked(payload)
        except Exception as error:
            # Not only msgspec's own: bad UTF-8, lists too deep and whatever a class
            # raises in its __post_init__ come as they are. The message is taken out
            # already, so what is not caught here would be lost.
            queue, message = self._queue, snapshot(payload, 0, None, None)
            msg = (
                f"cannot receive: message of {len(message)} bytes from"
                f" {queue.remote_name!r} port {queue.port} is no {self._wanted}:"
                f" {str(error) or type(error).__name__}"
            )
            raise PayloadError(msg, payload=message) from error

    # Hanging up.

    def disconnect(self, error: BaseException | None = None) -> None:
        """Hang up, as `MessageQueue.disconnect`."""
        self._queue.disconnect(error)

    def close(self) -> None:
        """The same as `disconnect()`."""
        self._queue.disconnect()

    def disconnected(self) -> bool:
        """Whether neither sending nor receiving can succeed again."""
        return self._queue.disconnected()

    @property
    def closed(self) -> bool:
        """The same as `disconnected()`, as a property."""
        return self._queue.disconnected()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.disconnect()

    # What it refuses, and how it looks.

    def __reduce__(self) -> NoReturn:
        msg = "cannot pickle or copy TypedQueue: it belongs to its process"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<TypedQueue of {self._wanted} on {self._queue!r}>"


def _name_of(wanted: Any) -> str:
    return wanted.__qualname__ if isinstance(wanted, type) else repr(wanted)


def _codec(
    wanted: Any, name: str
) -> tuple[Callable[[Any], bytes], Callable[[Buffer], Any]]:
    """Return how to encode, and how to decode a ``wanted``.

    Raises:
        TypeError: msgspec cannot decode one.
    """
    from msgspec import inspect, msgpack  # noqa: PLC0415 - loaded where used

    try:
        decoder = msgpack.Decoder(wanted)
        unknown = _unknown_to_msgspec(inspect.type_info(wanted))
    except Exception as error:
        # Annotations are evaluated: a name that is missing, or anything else.
        msg = f"cannot make a queue of {name}: {error}"
        raise TypeError(msg) from error
    if unknown:
        msg = f"cannot make a queue of {name}: nothing decodes to {unknown[0]}"
        raise TypeError(msg)
    return msgpack.Encoder().encode, decoder.decode


def _unknown_to_msgspec(info: object) -> list[str]:
    """Name the classes in a type that msgspec leaves to hooks; we have none.

    Its decoder takes them without a word and then refuses every message.
    """
    from msgspec import inspect  # noqa: PLC0415 - loaded where used

    unknown: list[str] = []
    seen: set[int] = set()  # a struct may hold structs of its own kind
    todo = [info]
    while todo:
        node = todo.pop()
        if isinstance(node, inspect.CustomType):
            if node.cls is not object:  # that is Any by another name
                unknown.append(_name_of(node.cls))
        elif isinstance(node, (inspect.Type, inspect.Field)) and id(node) not in seen:
            seen.add(id(node))
            todo += [getattr(node, field) for field in node.__struct_fields__]
        elif isinstance(node, tuple):
            todo += node
    return unknown
