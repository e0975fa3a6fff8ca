"""The tools of a scenario's program: brokers, calls in threads, expectations.

A stage belongs to one performance of one program. A `Driver` runs the threads, so that
each program is written once.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from specs.conformance.bytewise import BytewiseBroker
from specs.conformance.call import Call
from specs.conformance.expectation import expect, require

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROMPT_S", "Driver", "Stage"]

# The limit for "promptly" in the clauses, on the driver's clock.
PROMPT_S = 0.5


class Driver(Protocol):
    """The interface that runs the threads of a stage."""

    name: str

    def start(self, call: Call) -> None:
        """Begin ``call.run()`` in a thread of its own."""

    def join(self, call: Call) -> None:
        """Wait until ``call`` is done; raise AssertionError if it never will be."""

    def settle(self) -> None:
        """Wait until every started call is done or blocked."""

    def now(self) -> float:
        """Return the time in seconds, virtual or real."""

    def pause(self, seconds: float) -> None:
        """Wait for that time."""

    def interrupt(self, call: Call, error: BaseException) -> None:
        """Raise ``error`` where ``call`` waits; only the explorer can."""


class Stage:
    """The world of one performance, and the operations of a program.

    world: the result of the factory, made for this performance.
    takes_capacity: True if ``accept(port, capacity=...)`` is offered; for channels,
      ``channels(name, capacity=...)``.
    found_capacity: messages that fit into a buffer by default, None if unknown.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        driver: Driver,
        *,
        takes_capacity: bool = False,
        found_capacity: int | None = None,
        channels: bool = False,
        volume: int = 1,
    ) -> None:
        self.factory = factory
        self.world = factory()
        self.driver = driver
        self.volume = volume
        self._takes_capacity = takes_capacity
        self._found_capacity = found_capacity
        self._channels = channels
        self._brokers: dict[str, Any] = {}
        self._calls: list[Call] = []

    # Names in the implementation.

    def error(self, name: str) -> type[Exception]:
        """The exception class that the world has as ``name``: ``timeout_error``, ..."""
        found = getattr(self.world, name, None) or _DEFAULT_ERRORS[name]
        kind: type[Exception] = found
        return kind

    @property
    def disconnected_error(self) -> type[Exception]:
        """The exception class of an operation on a disconnected end."""
        over_bytes = getattr(self.world, "disconnected_channel_error", None)
        if self._channels and over_bytes is not None:
            kind: type[Exception] = over_bytes
            return kind
        return self.error("disconnected_error")

    def broker(self, name: str, **settings: Any) -> Any:
        """Return the broker of that name, made at the first call."""
        if name not in self._brokers:
            make = self.world.channels if self._channels else self.world.broker
            made = make(name, **settings)
            self._brokers[name] = BytewiseBroker(made) if self._channels else made
        return self._brokers[name]

    def brokers(self, *names: str) -> list[Any]:
        """Return the brokers of those names."""
        return [self.broker(name) for name in names]

    # Threads.

    def spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """Make the call in a thread of its own."""
        call = Call(function, args, kwargs)
        self._calls.append(call)
        self.driver.start(call)
        return call

    def settle(self, *expected: Call) -> None:
        """Wait until every call is done or waits.

        If not all ``expected`` calls are done then, they get `PROMPT_S` more. An
        implementation that polls is slow, but only QB-CONC-5 may fail for that.
        """
        self.driver.settle()
        if not all(call.done for call in expected):
            self.driver.pause(PROMPT_S)
            self.driver.settle()

    def now(self) -> float:
        """Return the time of the driver's clock, in seconds."""
        return self.driver.now()

    def waits(self, *calls: Call) -> None:
        """Require that each call still waits once no thread can go on."""
        self.settle()
        for call in calls:
            require(not call.done, f"{call.told()}, it must wait")

    def only_one(self, event: str, *calls: Call) -> Call:
        """Return the only call that is done once no thread can go on; require one."""
        self.settle()
        if not any(call.done for call in calls):
            self.settle(*calls)
        done = [call for call in calls if call.done]
        told = "; ".join(call.told() for call in done) or "nothing"
        require(len(done) == 1, f"{event} must release one of {len(calls)}: {told}")
        return done[0]

    def join(self, *calls: Call) -> None:
        """Require that each call ends, with any outcome."""
        for call in calls:
            self.driver.join(call)

    def value(self, call: Call) -> Any:
        """Require that the call returns, and return its result."""
        self.driver.join(call)
        if call.error is not None:
            raise AssertionError(f"{call.told()}, it must return") from call.error
        return call.value

    def values(self, *calls: Call) -> list[Any]:
        """Require that the calls return, and return their results."""
        return [self.value(call) for call in calls]

    def raises(self, kind: type[Exception] | None, *calls: Call) -> None:
        """Require that each call raises ``kind``, by default the disconnected error."""
        kind = kind or self.disconnected_error
        for call in calls:
            self.driver.join(call)
            if not isinstance(call.error, kind):
                wanted = f"{call.told()}, it must raise {kind.__name__}"
                raise AssertionError(wanted) from call.error

    def refuses(
        self,
        kind: type[Exception] | None,
        function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Require that the call raises ``kind`` without waiting."""
        call = self.spawn(function, *args, **kwargs)
        self.settle()
        kind = kind or self.disconnected_error
        require(call.done, f"{call.told()}, it must raise {kind.__name__} at once")
        self.raises(kind, call)

    def at_once(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Require that the call returns without waiting, and return its result."""
        call = self.spawn(function, *args, **kwargs)
        self.settle()
        require(call.done, f"{call.told()}, it must return at once")
        return self.value(call)

    def soon(self, function: Callable[..., Any], *args: Any) -> Any:
        """Require that the call returns promptly, and return its result."""
        call = self.spawn(function, *args)
        self.settle(call)
        require(call.done, f"{call.told()}, it must return promptly")
        return self.value(call)

    def promptly(self, since: float, *calls: Call) -> None:
        """Require that each call is done within `PROMPT_S` of ``since``."""
        for call in calls:
            self.driver.join(call)
        took = self.now() - since
        names = ", ".join(call.text for call in calls)
        require(took <= PROMPT_S, f"{names} took {took:.3g} s after the event")

    # Connections.

    def pair(
        self,
        port: int = 1,
        *,
        capacity: int | None = None,
        names: tuple[str, str] = ("b", "a"),
    ) -> tuple[Any, Any]:
        """Return both ends of a new connection: the acceptor's, the connector's."""
        acceptor, connector = names
        room = {"capacity": capacity} if capacity and self._takes_capacity else {}
        if self._channels and room:  # a broker of channels has one capacity for all
            acceptor, settings, room = f"{acceptor} of {capacity}", room, {}
            self.broker(acceptor, **settings)
        self.broker(connector)
        accept = self.spawn(self.broker(acceptor).accept, port, **room)
        connect = self.spawn(self.broker(connector).connect, acceptor, port)
        ends = self.value(accept), self.value(connect)
        require(ends[0] is not None, f"{accept.told()}, not an end")
        require(ends[1] is not None, f"{connect.told()} for a broker that exists")
        return ends

    @property
    def bounded(self) -> bool:
        """True if the capacity of a buffer is known."""
        return self._takes_capacity or self._found_capacity is not None

    def room(self, capacity: int = 1) -> int:
        """Return how many messages fit into a buffer of ``pair(capacity=capacity)``."""
        found = capacity if self._takes_capacity else self._found_capacity
        if found is None:
            raise LookupError("no capacity is known: the scenario must need 'bounded'")
        return found

    def full_pair(self, capacity: int = 1) -> tuple[Any, Any, list[bytes]]:
        """Return a pair whose flow to the connector is full, and the messages in it."""
        left, right = self.pair(capacity=capacity)
        sent = [bytes([48 + n % 75]) for n in range(self.room(capacity))]
        for message in sent:
            left.send(message)
        return left, right, sent

    def plenty(self, capacity: int = 1) -> int:
        """Return a number of messages above the capacity of the pair, if known."""
        return (self.room(capacity) if self.bounded else 1) + 2

    def drain(self, end: Any, limit: int = 100_000) -> list[bytes]:
        """Receive until the end is disconnected; return the messages."""
        messages: list[bytes] = []
        while len(messages) <= limit:
            try:
                message = end.receive()
            except self.disconnected_error:
                return messages
            require(isinstance(message, bytes), f"receive() returned {message!r}")
            messages.append(message)
        raise AssertionError(f"receive() gave more than {limit} messages, no end seen")

    def talk(self, left: Any, right: Any) -> None:
        """Require that the two are the ends of one connection, with nothing in it."""
        left.send(b"l")
        right.send(b"r")
        expect(right.receive(), b"l", "received from the acceptor's end")
        expect(left.receive(), b"r", "received from the connector's end")

    def strike(self) -> None:
        """Disconnect every end that a call returned; the program is over."""
        for call in self._calls:
            disconnect = getattr(call.value, "disconnect", None)
            if disconnect is not None:
                # An error here concerns no clause of this program.
                with contextlib.suppress(Exception):
                    disconnect()


_DEFAULT_ERRORS: dict[str, type[Exception]] = {
    "disconnected_error": ConnectionError,
    "timeout_error": TimeoutError,
    "name_in_use_error": ValueError,
    "unknown_broker_error": LookupError,
    "message_too_large_error": ValueError,
}
