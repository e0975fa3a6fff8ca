"""The protocol of one connection, without a socket: bytes in, bytes and events out.

The table of `queuebroker.sockets.states` lists the frames that may be sent and received
in each state. A received frame that the table does not allow is a violation, which ends
this connection with one error. Nothing here blocks, reads a clock or uses threads: the
time is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from queuebroker.sockets import frames
from queuebroker.sockets.errors import PeerLostError, ProtocolError
from queuebroker.sockets.frames import (
    HEAD,
    MESSAGE_HEAD,
    NUMBER,
    OVERHEAD_BYTES,
    Credit,
    Frame,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
)
from queuebroker.sockets.gathering import Gathering
from queuebroker.sockets.states import TRANSITIONS, Act, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Event", "Lost", "Protocol"]

# Maximum bytes in the body of a frame: of every frame until the connection is agreed
# on, and of every frame other than messages after that.
FIRST_FRAME_BYTES_MAX: Final = 16384

# A sender of several messages at once keeps the body of a frame below this, in bytes.
RUN_BYTES_MAX: Final = 1 << 18

# Maximum pings that may arrive before their answers could be sent.
PINGS_MAX: Final = 64


_RECEIVED: Final[Mapping[type, Act]] = {
    Hello: Act.RECEIVE_HELLO,
    Welcome: Act.RECEIVE_WELCOME,
    Refused: Act.RECEIVE_REFUSED,
    Messages: Act.RECEIVE_MESSAGES,
    Credit: Act.RECEIVE_CREDIT,
    Goodbye: Act.RECEIVE_GOODBYE,
    Ping: Act.RECEIVE_PING,
    Pong: Act.RECEIVE_PONG,
}
_UNMET: Final = (State.LISTENING, State.HELLO_RECEIVED, State.HELLO_SENT)
_MESSAGE: Final = int(Frame.MESSAGE)
_RUN: Final = int(Frame.RUN)
_WITH_FDS: Final = int(Frame.MESSAGE_WITH_FDS)
_SAY_MESSAGES: Final = Act.SEND_MESSAGES
_HEAR_MESSAGES: Final = Act.RECEIVE_MESSAGES


@attrs.frozen(slots=True)
class Lost:
    """The last event of a connection that ended without a good-bye, with the error."""

    error: PeerLostError | ProtocolError


Event = Hello | Welcome | Refused | Messages | Credit | Goodbye | Pong | Lost


class Protocol:
    """One side of one connection. Not for several threads at once.

    The caller must:

    1. create it with `listening` or `asking`;
    2. pass in all input by `receive_data`, `receive_eof` or `tick`, and then handle
       every one of its `events`, in order;
    3. after each call, send the bytes that `data_to_send` returns. It must not take
       more before those are sent: bytes that the peer does not read must not pile up;
    4. once it is ``ended`` and all was sent, close the connection.

    state: the state of the connection.
    capacity, limit: the agreed values, once the connection is open.
    unreceived: messages sent that the peer has not received, as far as is known.
    owed: messages that arrived, and for which no credit was returned.
    taken: of those, messages that were received.
    outgoing: the bytes to send; `data_to_send` takes them.
    gathering: the buffer for the rest of a long message, None if none has begun.

    An exception that interrupts a send leaves the frame queued or not queued
    (QB-ERR-9). After an exception that interrupts a receive, the protocol cannot
    continue.
    """

    __slots__ = (
        "_arrived",
        "_events",
        "_input_since_tick",
        "_large",
        "_last_input_at",
        "_number",
        "_parts",
        "_pinged",
        "_pongs",
        "_received",
        "_rest",
        "_unanswered",
        "_unanswered_max",
        "_wanted",
        "capacity",
        "descriptors",
        "first_max",
        "gathering",
        "lease_s",
        "limit",
        "outgoing",
        "owed",
        "state",
        "taken",
        "unreceived",
    )

    def __init__(
        self,
        state: State,
        *,
        first_max: int = FIRST_FRAME_BYTES_MAX,
        unanswered_max: int | None = None,
        lease_s: float | None = None,
    ) -> None:
        self.state: State = state
        self.capacity: int = 0
        self.limit: int = 0
        self.descriptors: int = 0
        self.unreceived: int = 0
        self.owed: int = 0
        self.taken: int = 0
        self.outgoing: list[bytes] = []
        self.first_max: int = first_max
        # True while ``unanswered_max`` applies: this side has sent no message yet.
        self._unanswered = unanswered_max is not None
        self._unanswered_max = unanswered_max or 0
        self.lease_s: float | None = lease_s
        self._number = 0  # of the last message sent
        self._arrived = 0  # of the last message that arrived
        self._received = 0  # messages received by the peer, as it reports
        self._events: list[Event] = []
        # The part of an incomplete frame: its beginning or, of a long one, its pieces
        # and the number of bytes still missing.
        self._rest = b""
        self._parts: list[bytes] = []
        self._wanted = 0
        self._large: int | None = None  # the number of the incomplete message
        self.gathering: Gathering | None = None
        self._input_since_tick = True
        self._last_input_at: float | None = None
        self._pinged = False
        self._pongs = 0  # in `outgoing`

    @classmethod
    def listening(
        cls,
        *,
        first_max: int = FIRST_FRAME_BYTES_MAX,
        unanswered_max: int | None = None,
        lease_s: float | None = None,
    ) -> Protocol:
        """Return the side that waits for a `Hello`.

        unanswered_max: bytes of the longest message before this side has sent one.
        """
        return cls(
            State.LISTENING,
            first_max=first_max,
            unanswered_max=unanswered_max,
            lease_s=lease_s,
        )

    @classmethod
    def asking(cls, hello: Hello, *, lease_s: float | None = None) -> Protocol:
        """Return the side that sends `Hello`."""
        made = cls(State.HELLO_SENT, lease_s=lease_s)
        made.outgoing.append(frames.encode(hello))
        return made

    # Sending. A frame that the state does not allow is the caller's fault: ValueError.
    # Each method builds its frame before it changes anything. Except in `welcome` and
    # `credit` it makes no call between two changes: no interrupt can separate them.

    def welcome(self, welcome: Welcome) -> None:
        """Accept the requested connection."""
        self._send(Act.SEND_WELCOME, frames.encode(welcome))
        self._agree(welcome)

    def refuse(self, reason: Refusal, text: str = "") -> None:
        """Reject the requested connection."""
        self._send(Act.SEND_REFUSED, frames.encode(Refused(reason, text)))

    def send_message(self, message: bytes) -> None:
        """Send one message; the peer must have room for it."""
        head = frames.head_of_message(self._number + 1, len(message))
        # Two parts, so that a long message is not copied.
        self._send(_SAY_MESSAGES, head, message)
        self._unanswered = False
        self._number += 1
        self.unreceived += 1

    def frame_of(self, message: bytes, descriptors: int = 0) -> bytes:
        """Return the frame of one message; the peer must have room for it.

        The caller sends the frame itself, so no output may be pending before it. The
        descriptors must go with its first byte.
        """
        if (self.state, _SAY_MESSAGES) not in TRANSITIONS:
            self._send(_SAY_MESSAGES)
        number = self._number + 1
        if descriptors:
            frame = frames.encode_message(number, message, descriptors)
        else:
            frame = MESSAGE_HEAD.pack(_MESSAGE, 8 + len(message), number) + message
        self._unanswered = False
        self._number = number
        self.unreceived += 1
        return frame

    def send_run(self, messages: Sequence[bytes]) -> None:
        """Send several messages; the peer must have room for them."""
        count = len(messages)
        self._send(_SAY_MESSAGES, frames.encode_run(self._number + 1, messages))
        self._unanswered = False
        self._number += count
        self.unreceived += count

    def credit(self, count: int) -> None:
        """Record that ``count`` messages were received here.

        The credit is sent once it amounts to half of the capacity, and at once if the
        peer may have no room left (QB-SOCK-3).
        """
        self.taken += count
        self._give_back()

    def disconnect(self, error: BaseException | None = None) -> None:
        """Send the good-bye; no message may follow it."""
        received = self._arrived - self.owed + self.taken
        if error is None:
            goodbye = Goodbye(received)
        else:
            goodbye = Goodbye(
                received, abnormal=True, kind=type(error).__name__, text=str(error)
            )
        self._send(Act.SEND_GOODBYE, frames.encode(goodbye))

    def ping(self, number: int) -> None:
        """Send a ping; the `Pong` arrives after everything already in transit."""
        self._send(Act.SEND_PING, frames.encode(Ping(number)))

    def data_to_send(self) -> list[bytes]:
        """Return the bytes to write, in order; the protocol does not keep them."""
        out, self.outgoing, self._pongs = self.outgoing, [], 0
        return out

    # Receiving.

    def receive_data(self, data: bytes) -> None:
        """Process bytes that arrived, in pieces of any size.

        Not while a message is gathered: its bytes go through `receive_gathered`.
        """
        assert self.gathering is None
        self._input_since_tick = True
        if self.state is State.ENDED:
            return
        try:
            self._take_in(data)
        except ProtocolError as error:
            self._break(error)

    def receive_whole(self, data: bytes) -> bytes | None:
        """Process ``data`` if it is exactly one message; return that message.

        The message counts as received. Otherwise return None; the caller then passes
        the data to `receive_data`. Nearly every read of a waiting receiver is one
        message, which needs none of the steps in between. The caller must then check
        whether credit is due, as ``credit(0)`` does.
        """
        if (
            self._rest
            or self._wanted
            or self._unanswered
            or len(data) < MESSAGE_HEAD.size
        ):
            return None
        kind, length, number = MESSAGE_HEAD.unpack_from(data)
        if (
            kind != _MESSAGE
            or length != len(data) - HEAD.size
            or length - NUMBER.size > self.limit
            or number != self._arrived + 1
            or self.owed >= self.capacity
            or self.state is not State.OPEN
        ):
            return None
        self._input_since_tick = True
        self._arrived = number
        self.owed += 1
        self.taken += 1
        return data[MESSAGE_HEAD.size :]

    def long_bytes(self) -> int:
        """Return the length of the incomplete message, 0 if `gather` does not apply."""
        if self._large is None or self.gathering is not None:
            return 0
        return self._wanted + sum(map(len, self._parts))

    def gather(self) -> None:
        """Allocate memory for the incomplete message; the rest is read into it."""
        self.gathering = Gathering(b"".join(self._parts), self._wanted)
        self._parts.clear()

    def receive_gathered(self, count: int) -> None:
        """Record that ``count`` bytes were read into the gathering; 0 means the end."""
        gathering = self.gathering
        if not count or gathering is None:
            self.receive_eof()
            return
        self._input_since_tick = True
        gathering.wanted = self._wanted = self._wanted - count
        if self._wanted:
            return
        self.gathering = None
        try:
            self._receive_long(gathering.message())
        except ProtocolError as error:
            self._break(error)

    def receive_eof(self, error: PeerLostError | None = None) -> None:
        """End the connection: no more bytes will arrive."""
        if self.state is not State.ENDED:
            self._lose(error or PeerLostError("peer closed without a good-bye"))

    def fail(self, error: ProtocolError) -> None:
        """End the connection for a violation that only the caller could detect."""
        if self.state is not State.ENDED:
            self._break(error)

    def abort(self, error: PeerLostError) -> None:
        """End the connection: this side cannot continue. The good-bye has the cause."""
        if self.state is not State.ENDED:
            self._break(error)

    def tick(self, now: float) -> None:
        """Advance the time to ``now``, in seconds on a monotonic clock.

        With a lease: a peer that is silent for its length is lost. The protocol sends a
        ping when half of it has passed. Call this several times within a lease.
        """
        if self.lease_s is None or self.state in (State.ENDED, State.LISTENING):
            return
        if self._input_since_tick or self._last_input_at is None:
            self._input_since_tick, self._last_input_at, self._pinged = (
                False,
                now,
                False,
            )
            return
        silent_s = now - self._last_input_at
        if silent_s >= self.lease_s:
            self._lose(PeerLostError(f"peer was silent for {silent_s:.3g} s"))
        elif silent_s >= self.lease_s / 2 and not self._pinged:
            self._pinged = True
            self.ping(0)

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    @property
    def ended(self) -> bool:
        """True if no frame can be sent or received any more."""
        return self.state is State.ENDED

    @property
    def received(self) -> int:
        """Messages sent that the peer has received, as far as is known."""
        return self._received

    @property
    def wanted(self) -> int:
        """Bytes still missing from the incomplete frame, 0 if that is unknown."""
        return self._wanted

    def _take_in(self, data: bytes) -> None:
        if self._wanted:
            whole = self._go_on(data)
            if whole is None:
                return
            data = whole
        elif self._rest:
            data = self._rest + data
        self._rest = b""
        begin, size = 0, len(data)
        unpack, number_at = HEAD.unpack_from, NUMBER.unpack_from
        run: list[bytes] = []
        while size - begin >= 5:
            kind, length = unpack(data, begin)
            try:
                self._judge(kind, length)
            except ProtocolError:
                self._receive_run(run)  # earlier messages are received all the same
                raise
            body = begin + 5
            end = body + length
            if end > size:
                self._wanted = end - size
                if kind == _MESSAGE and size - body >= 8:
                    # Keep only the body, so that it is not copied out later.
                    (self._large,) = number_at(data, body)
                    begin = body + 8
                self._parts.append(data[begin:])
                break
            # By far most frames are messages: successive ones form one event.
            if (
                kind == _MESSAGE
                and 8 <= length <= self.limit + 8
                and number_at(data, body)[0] == self._arrived + len(run) + 1
                and (self.state, _HEAR_MESSAGES) in TRANSITIONS
            ):
                run.append(data[body + 8 : end])
            else:
                self._receive_run(run)
                run = []
                self._receive_frame(kind, data[body:end])
            begin = end
            if self.state is State.ENDED:
                return
        else:
            self._rest = data[begin:]
        self._receive_run(run)

    def _go_on(self, data: bytes) -> bytes | None:
        """Add to the incomplete frame; return the data to process once it is complete.

        Return None while it is incomplete.
        """
        excess = data[self._wanted :]
        self._parts.append(data[: self._wanted] if excess else data)
        self._wanted = max(0, self._wanted - len(data))
        if self._wanted:
            return None
        whole = b"".join(self._parts)
        self._parts.clear()
        if self._large is None:
            return whole + excess
        self._receive_long(whole)
        return excess

    def _receive_long(self, message: bytes) -> None:
        """Process a message that arrived in several pieces."""
        number, self._large = self._large, None
        assert number is not None
        if (self.state, _HEAR_MESSAGES) not in TRANSITIONS:
            msg = f"MESSAGE frame arrived while {self.state.value}"
            raise ProtocolError(msg)
        self._receive_messages(Messages(number, [message]))

    def _receive_run(self, run: list[bytes]) -> None:
        if run:
            self._receive_messages(Messages(self._arrived + 1, run))

    def _judge(self, kind: int, length: int) -> None:
        """Reject a frame that is too long, before any of its body is kept."""
        longest = self._longest()
        if kind == _MESSAGE:
            most = longest + OVERHEAD_BYTES
        elif kind == _RUN:
            # A run fits the free slots, and its sender keeps it short.
            most = longest if self._unanswered else max(longest, RUN_BYTES_MAX)
            most += OVERHEAD_BYTES
        else:
            most = self.first_max + (longest if kind == _WITH_FDS else 0)
        if length > most:
            msg = f"frame of kind {kind} has {length} bytes, at most {most} are allowed"
            raise ProtocolError(msg + " before an answer" * self._unanswered)

    def _longest(self) -> int:
        """Return the maximum bytes of a message that arrives now."""
        if self._unanswered:
            return min(self._unanswered_max, self.limit)
        return self.limit

    def _receive_frame(self, kind: int, body: bytes) -> None:
        value = frames.decode(kind, body)
        act = _RECEIVED[type(value)]
        following = TRANSITIONS.get((self.state, act))
        if following is None:
            name, where = Frame(kind).name, self.state.value
            msg = f"{name} frame arrived while {where}"
            raise ProtocolError(msg)
        if isinstance(value, Messages):
            self._receive_messages(value)
            return
        if isinstance(value, Ping):
            self._answer(value)
            return
        if isinstance(value, Credit):
            self._receive_count(self._received + value.count, "credit for")
        elif isinstance(value, Goodbye) and self.state is not State.HELLO_RECEIVED:
            self._receive_count(value.received, "good-bye after")
        elif isinstance(value, Hello):
            low, high = frames.VERSIONS
            if value.versions[0] > high or value.versions[1] < low:
                msg = f"versions {value.versions} offered, {frames.VERSIONS} supported"
                raise ProtocolError(msg)
        elif isinstance(value, Welcome):
            if value.version != frames.VERSIONS[1]:
                msg = f"version {value.version} was chosen, {frames.VERSIONS} offered"
                raise ProtocolError(msg)
            self._agree(value)
        self.state = following
        self._events.append(value)

    def _receive_messages(self, value: Messages) -> None:
        count = len(value.messages)
        if value.first != self._arrived + 1:
            msg = f"message {value.first} arrived after message {self._arrived}"
            raise ProtocolError(msg)
        if self.owed + count > self.capacity:
            msg = f"{self.owed + count} messages arrived, room for {self.capacity}"
            raise ProtocolError(msg)
        if value.descriptors > self.descriptors:
            msg = f"{value.descriptors} descriptors arrived, {self.descriptors} allowed"
            raise ProtocolError(msg)
        if max(map(len, value.messages)) > (longest := self._longest()):
            msg = f"a message is longer than {longest} bytes"
            raise ProtocolError(msg + " before an answer" * self._unanswered)
        self._arrived += count
        self.owed += count
        self._events.append(value)
        self._give_back()

    def _answer(self, ping: Ping) -> None:
        self._pongs += 1
        if self._pongs > PINGS_MAX:
            msg = f"more than {PINGS_MAX} pings arrived without room for an answer"
            raise ProtocolError(msg)
        self._send(Act.SEND_PONG, frames.encode(Pong(ping.number)))

    def _receive_count(self, received: int, what: str) -> None:
        """Record how many messages the peer has received in total."""
        if not self._received <= received <= self._number:
            msg = f"{what} {received} messages, {self._number} were sent"
            raise ProtocolError(msg)
        self.unreceived -= received - self._received
        self._received = received

    def _give_back(self) -> None:
        taken = self.taken
        if taken and (self.owed >= self.capacity or 2 * taken >= self.capacity):
            if (self.state, Act.SEND_CREDIT) not in TRANSITIONS:
                return
            self._send(Act.SEND_CREDIT, frames.encode(Credit(taken)))
            self.owed -= taken
            self.taken = 0

    def _agree(self, welcome: Welcome) -> None:
        self.capacity = welcome.capacity
        self.limit = welcome.limit
        self.descriptors = welcome.descriptors

    def _send(self, act: Act, *parts: bytes) -> None:
        following = TRANSITIONS.get((self.state, act))
        if following is None:
            msg = f"cannot {act.name.lower()} while {self.state.value}"
            raise ValueError(msg)
        self.state = following
        self.outgoing += parts

    def _break(self, error: PeerLostError | ProtocolError) -> None:
        """End this connection; send the peer the reason if the state allows it."""
        unmet = self.state in _UNMET
        if (self.state, Act.SEND_REFUSED) in TRANSITIONS:
            self.refuse(Refusal.PROTOCOL, str(error))
        elif not unmet and (self.state, Act.SEND_GOODBYE) in TRANSITIONS:
            self.disconnect(error)
        self._lose(error)

    def _lose(self, error: PeerLostError | ProtocolError) -> None:
        self.state = State.ENDED
        self._rest = b""
        self._parts.clear()
        self.gathering = self._large = None
        self._wanted = 0
        self._events.append(Lost(error))
