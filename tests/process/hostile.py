"""F3: a peer that speaks the wire protocol of the bus at will, over a real socket.

`Hostile` has a link, and sends any frame that a test needs on it. A peer that does not
even speak the link protocol is a `tests.kit.raw_peer`. `served` and `is_known` check
the effect on other processes.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from bus.kernel import wire
from bus.model.message import Kind
from bus.model.payload import encode as encoded
from bus.model.registration import RegistrationId, Visibility
from bus.process.link_helpers import PORT
from bus.process.socket_network import machine_id
from queuebroker.errors import DisconnectedError
from queuebroker.sockets import SocketQueueBroker, frames
from tests.kit.inspection import report, unbalanced
from tests.kit.systems import require_unix_sockets
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus
    from bus.kernel.wire import Frame
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["HELLO", "NAME", "TASK", "Hostile", "is_known", "served"]

NAME: Final = "rogue"  # its process name
TASK: Final = "liar"  # the name of its task
# The first bytes of a dialling process, in the protocol of links.
HELLO: Final = frames.encode(frames.Hello("x", 1, 100))
_RELAY: Final = 5  # the relay number of that task
_BODY: Final = encoded("what is said")
_numbers: Final = itertools.count(1)


class Hostile:
    """A link to a process that listens in a run directory; a context manager.

    epoch: the epoch of its messages.
    welcome, opened: the WELCOME and the OPEN_STREAM that it received, after `greet`.
    number: the number of its next message.
    """

    def __init__(self, place: Path, name: str = NAME) -> None:
        require_unix_sockets()
        self._name: Final = name
        self._broker: Final = SocketQueueBroker(f"hostile {next(_numbers)}")
        self._queue: Final[MessageQueue] = self._broker.connect(
            f"ipc://{place}", PORT, timeout=LIMIT_S, required=True
        )
        self._incarnation: Final = time.time_ns()
        self.epoch: Final = self._incarnation + 1
        self.number: int = 1
        self.welcome: wire.Welcome
        self.opened: wire.OpenStream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.disconnect()
        self._broker.close()

    # Frames on its link.

    def say(self, *frames: Frame | bytes) -> None:
        """Send frames, or raw bytes that are no frame."""
        for frame in frames:
            said = frame if isinstance(frame, bytes) else wire.encode(frame)
            self._queue.send(said, timeout=LIMIT_S)

    def hear(self) -> Frame | None:
        """Return the next frame; None at the end of the link."""
        try:
            return wire.decode(self._queue.receive(timeout=LIMIT_S))
        except DisconnectedError:
            return None

    def hear_any(self, kind: type[Any]) -> Any:
        """Return the next frame of a type, or None; skip the frames before it."""
        while (frame := self.hear()) is not None:
            if isinstance(frame, kind):
                return frame
        return None

    def last_word(self) -> Frame | None:
        """Return the last frame before the end of the link; None if there is none."""
        last = None
        while (frame := self.hear()) is not None:
            last = frame
        return last

    def why_closed(self) -> str:
        """Return the reason why the peer closed the link; skip all frames before it."""
        try:
            while True:
                self._queue.receive(timeout=LIMIT_S)
        except DisconnectedError as error:
            return str(error.__cause__)

    def is_heard(self) -> bool:
        """Return True if the link is open and the peer has processed all frames."""
        self.say(wire.Ping(number=self.number))
        return bool(self.hear_any(wire.Pong) == wire.Pong(number=self.number))

    # The handshake.

    def hello(
        self,
        *,
        kind: wire.LinkKind = wire.LinkKind.SIGNALLING,
        versions: tuple[int, int] = wire.VERSIONS,
        **identity: Any,
    ) -> wire.Hello:
        """Return a correct HELLO, except for the given fields."""
        one = wire.Identity(
            bus="bus1",
            machine="machine",
            machine_id=machine_id(),
            process=self._name,
            process_id=os.getpid(),
            incarnation=self._incarnation,
            role=wire.Role.SLAVE,
        )
        return wire.Hello(
            versions=versions,
            identity=replace(one, **identity),
            kind=kind,
            message_bytes_max=2**24,
        )

    def greet(self) -> Self:
        """Greet correctly, and open the link."""
        self.say(self.hello())
        welcome, opened = self.hear(), self.hear()
        assert isinstance(welcome, wire.Welcome)
        assert isinstance(opened, wire.OpenStream)
        self.welcome, self.opened = welcome, opened
        self.say(self.stream())
        return self

    def stream(self, **changes: Any) -> wire.OpenStream:
        """Return an OPEN_STREAM, except for the given fields."""
        frame = wire.OpenStream(
            epoch=self.epoch,
            nonce=1,
            incarnation=self.welcome.identity.incarnation,
            first=1,
            window=4096,
        )
        return replace(frame, **changes)

    # After the handshake.

    def id(self, number: int = 1, *, process: str | None = None) -> RegistrationId:
        """Return a registration ID of its own, or of another process."""
        return RegistrationId("machine", process or self._name, number)

    def request(self, number: int = 1) -> wire.RequestId:
        """Return the ID of one of its requests."""
        return wire.RequestId(machine="machine", process=self._name, number=number)

    def task(self, **changes: Any) -> wire.Characteristics:
        """Return the characteristics of its task, except for the given fields."""
        one = wire.Characteristics(
            relay=_RELAY,
            id=self.id(),
            name=TASK,
            visibility=Visibility.PRIVATE,
            incarnation=self._incarnation,
        )
        return replace(one, **changes)

    def messages(
        self, *, count: int = 1, body: bytes = _BODY, **changes: Any
    ) -> wire.Batch:
        """Return the next commands of its task, to relay ``to``, with given fields."""
        fields: dict[str, Any] = {
            "to": 999,
            "source": _RELAY,
            "kind": Kind.COMMAND,
            "flags": wire.WANTS_REPLY,
            "id": self.number,
            "milliseconds_left": wire.NO_DEADLINE,
            "hop": 0,
            "bodies": [body] * count,
        } | changes
        first, self.number = self.number, self.number + count
        return wire.Batch(
            self.epoch,
            self.welcome.identity.incarnation,
            first,
            first,
            [wire.Run(**fields)],
        )

    def found(self, name: str) -> int:
        """Search for a name at the other end; return its relay number."""
        self.say(
            wire.Search(
                id=self.request(),
                machine="machine",
                name=name,
                sender=self.task(),
                hops=3,
            )
        )
        answer = self.hear_any(wire.AddRelay)
        assert isinstance(answer, wire.AddRelay)
        return answer.task.relay


# The effect on others.


def served(bus: Bus, other: Bus) -> None:
    """Check that two processes reach one another, and that no message is missing."""
    assert bus.call("far", 1, timeout=LIMIT_S) == 1
    assert other.call("echo", 2, timeout=LIMIT_S) == 2
    assert unbalanced(bus.inspect()) == unbalanced(other.inspect()) == []


def is_known(bus: Bus) -> bool:
    """Return True if a process has any record of the hostile one."""
    seen = report(bus)
    known = {*seen["processes"], *seen["users"].values()}
    known.update(each["process"] for each in (*seen["links"], *seen["relays"]))
    return NAME in known
