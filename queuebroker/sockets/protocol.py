"""The protocol of one connection, without a socket: bytes in, bytes and events out.

The table of `queuebroker.sockets.states` lists the frames that may be sent and received
in each state. A received frame that the table does not allow is a violation, which ends
this connection with one error. Nothing here blocks, reads a clock or uses threads: the
time is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from queuebroker.sockets import frames
from queuebroker.sockets.errors import PeerLostError, ProtocolError
from queuebroker.sockets.frame_reader import FrameReader
from queuebroker.sockets.frames import (
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
from queuebroker.sockets.states import TRANSITIONS, Act, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Event", "Lost", "Protocol"]

# Maximum pings that may arrive before their answers could be sent.
PINGS_MAX: Final = 64


_RECEIVED: Final[Mapping[type, Act]] = {
    Hello: Act.RECEIVE_HELLO,
    Welcome: Act.RECEIVE_WELCOME,
    Refused: Act.RECEIVE_REFUSED,
    Credit: Act.RECEIVE_CREDIT,
    Goodbye: Act.RECEIVE_GOODBYE,
    Ping: Act.RECEIVE_PING,
    Pong: Act.RECEIVE_PONG,
}
_UNMET: Final = (State.LISTENING, State.HELLO_RECEIVED, State.HELLO_SENT)
_MESSAGE: Final = int(Frame.MESSAGE)
_SEND_MESSAGES: Final = Act.SEND_MESSAGES
_RECEIVE_MESSAGES: Final = Act.RECEIVE_MESSAGES


class Lost(NamedTuple):
    """The last event of a connection that ended without a good-bye, with the error."""

    error: PeerLostError | ProtocolError


Event = Hello | Welcome | Refused | Messages | Credit | Goodbye | Pong | Lost


class Protocol:
    """One side of one connection. Not for several threads at once.

    The caller must:

    1. create it, with the `Hello` to send, or without to wait for one;
    2. pass in all input by `receive_data`, `receive_eof` or `tick`, and then handle
       every one of its `events`, in order;
    3. after each call, send the bytes that `data_to_send` returns; after
       `begin_gathering`, soon. It must not take more before those are sent: bytes that
       the peer does not read must not pile up;
    4. once it is ``ended`` and all was sent, close the connection.

    A link passes these methods by for a message alone, while ``plain``: it makes the
    same changes in `LinkWriter.post_whole_locked` and `Link.read_whole_locked`.

    state: the state of the connection.
    capacity, limit, descriptors: the agreed values, once the connection is open; before
      that, the last two are those that a caller offers.
    sent: messages sent, and so the number of the last one.
    sendable: number of the last message for which the peer has room.
    received: messages sent that the peer has received, as far as is known.
    arrived: messages that arrived, and so the number of the last one.
    receivable: number of the last message for which there is room here.
    taken: messages that were received here, and for which no credit was returned.
    riding_min: the minimum ``taken`` for credit to go with a message.
    gathered: messages sent, and not yet in a frame; `data_to_send` makes it.
    gather_until: number of the last message that any thread may send by itself, 0 if
      none. The thread checks this number, adds the message to ``gathered`` and
      increments ``sent``, with no call in between: as long as the interpreter has its
      lock, nothing else happens in between. The caller of the other methods sets this
      to 0 before it relies on ``sent``.
    outgoing: the bytes to send; `data_to_send` takes them.
    plain: True only while the connection is open and the peer may send messages of any
      agreed length: then one message needs no other check of the state.
    reader: the frames in the bytes that arrive.
    lease_s: the silence after which the peer is lost, in seconds; None: no limit.

    An exception that interrupts a send leaves the frame queued or not queued
    (QB-ERR-9). After an exception that interrupts a receive, the protocol cannot
    continue.
    """

    __slots__ = (
        "_arrived_at_tick",
        "_events",
        "_input_since_tick",
        "_last_input_at",
        "_pinged",
        "_pongs",
        "arrived",
        "capacity",
        "descriptors",
        "gather_until",
        "gathered",
        "lease_s",
        "limit",
        "outgoing",
        "plain",
        "reader",
        "receivable",
        "received",
        "riding_min",
        "sendable",
        "sent",
        "state",
        "taken",
    )

    def __init__(
        self,
        hello: Hello | None = None,
        *,
        reader: FrameReader | None = None,
        lease_s: float | None = None,
    ) -> None:
        self.state: State = State.LISTENING if hello is None else State.HELLO_SENT
        self.capacity: int = 0
        self.limit: int = 0 if hello is None else hello.limit
        self.descriptors: int = 0 if hello is None else hello.descriptors
        self.sent: int = 0
        self.sendable: int = 0
        self.received: int = 0
        self.arrived: int = 0
        self.receivable: int = 0
        self.taken: int = 0
        self.gathered: list[bytes] = []
        self.gather_until: int = 0
        self.outgoing: list[bytes] = [] if hello is None else [frames.encode(hello)]
        self.plain: bool = False
        self.reader: FrameReader = reader or FrameReader()
        self.lease_s: float | None = lease_s
        self._events: list[Event] = []
        self._input_since_tick = True
        self._arrived_at_tick = 0
        self._last_input_at: float | None = None
        self._pinged = False
        self._pongs = 0  # in `outgoing`
        self.riding_min: int = 0

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

    def send_message(self, message: bytes, descriptors: int = 0) -> None:
        """Send one message; the peer must have room for it.

        The descriptors must go with the first byte of its frame, which is one part.
        """
        number = self.sent + 1
        if descriptors:
            frame = frames.encode_message(number, message, descriptors)
            self._send(_SEND_MESSAGES, frame)
        else:  # two parts, so that a long message is not copied
            head = frames.head_of_message(number, len(message))
            self._send(_SEND_MESSAGES, head, message)
        if not self.plain:
            self.reader.unanswered, self.plain = False, True
        self.sent = number

    def begin_message(self) -> None:
        """Check that a message may be sent, and note that the peer is answered.

        Only while not ``plain``, by a caller that sends the frame itself. It counts the
        message in ``sent``, and no output may be pending before that.
        """
        self._send(_SEND_MESSAGES)  # the table decides
        self.reader.unanswered, self.plain = False, True

    def with_credit(self, frame: bytes) -> bytes:
        """Return credit and the frame of a message, which wakes the peer anyway.

        Once ``taken`` amounts to ``riding_min``. Alone, the credit would soon wake the
        driver, in each of two processes that answer each other.
        """
        frame = frames.encode(Credit(self.taken)) + frame
        self.receivable += self.taken
        self.taken = 0
        return frame

    def send_run(self, messages: Sequence[bytes]) -> None:
        """Send several messages; the peer must have room for them."""
        count = len(messages)
        self._send(_SEND_MESSAGES, frames.encode_run(self.sent + 1, messages))
        if not self.plain:
            self.reader.unanswered, self.plain = False, True
        self.sent += count

    def begin_gathering(self, message: bytes, most: int) -> None:
        """Send a message, and permit ``most``, this one included, to be gathered.

        The peer must have room for the message. The bytes to send may wait.
        """
        self._send(_SEND_MESSAGES)
        one, sent = (message,), self.sent + 1
        until = min(self.sendable, self.sent + most)
        # From here on no call and no new object but the first: neither an interrupt nor
        # a lack of memory can come in between.
        self.gathered += one
        self.reader.unanswered, self.plain = False, True
        self.sent = sent
        self.gather_until = until

    def credit(self, count: int) -> None:
        """Record that ``count`` messages were received here.

        The credit is sent once it amounts to half of the capacity, with a message to
        the peer once it amounts to a quarter, and at once if the peer may have no room
        left (QB-SOCK-3).
        """
        self.taken += count
        self._return_credit()

    def disconnect(self, error: BaseException | None = None) -> None:
        """Send the good-bye; no message may follow it."""
        received = self.arrived - self.owed + self.taken
        goodbye = Goodbye(received)
        if error is not None:
            kind, text = type(error).__name__, str(error)
            goodbye = Goodbye(received, abnormal=True, kind=kind, text=text)
        self.plain = False  # without the next line, one message takes more steps
        self._send(Act.SEND_GOODBYE, frames.encode(goodbye))

    def ping(self, number: int) -> None:
        """Send a ping; the `Pong` arrives after everything already in transit."""
        self._send(Act.SEND_PING, frames.encode(Ping(number)))

    def data_to_send(self) -> list[bytes]:
        """Return the bytes to write, in order; the protocol does not keep them."""
        if self.gathered:
            self._frame_gathered()
        out, self.outgoing, self._pongs = self.outgoing, [], 0
        return out

    # Receiving.

    def receive_data(self, data: bytes) -> None:
        """Process bytes that arrived, in pieces of any size.

        Not while a message is gathered: its bytes go through `receive_gathered`.
        """
        reader, state = self.reader, self.state  # a frame may change the state
        assert reader.gathering is None
        self._input_since_tick = True
        if state is State.ENDED:
            return
        try:
            frame = reader.feed(data)
            while frame is not None:
                if isinstance(frame, Messages):
                    self._receive_messages(frame)
                else:
                    self._receive_frame(*frame)
                if self.state is State.ENDED:
                    reader.drop()
                    return
                frame = reader.next_frame()
        except ProtocolError as error:
            self._break(error)

    def take_credit(self, data: bytes) -> bytes:
        """Take the credit with which ``data`` begins; return the bytes after it.

        So a credit that rides with a message (`with_credit`) makes it no slower. Return
        all if `receive_data` has to handle it: nothing follows, the credit is wrong, or
        a sender may wait for it.
        """
        count, rest = frames.credit_before(data)
        received = self.received + count
        if (
            not rest
            or not self.plain
            or self.sent >= self.sendable
            or received > self.sent
        ):
            return data
        self.received = received
        self.sendable = received + self.capacity
        return rest

    def receive_gathered(self, count: int) -> None:
        """Record that ``count`` bytes were read into the gathering; 0 means the end."""
        reader = self.reader
        if not count or reader.gathering is None:
            self.receive_eof()
            return
        self._input_since_tick = True
        try:
            message = reader.feed_gathering(count)
            if message is not None:
                self._receive_messages(message)
        except ProtocolError as error:
            self._break(error)

    def receive_eof(self, error: PeerLostError | None = None) -> None:
        """End the connection: no more bytes will arrive."""
        if self.state is not State.ENDED:
            self._lose(error or PeerLostError("peer closed without a good-bye"))

    def abort(self, error: PeerLostError | ProtocolError) -> None:
        """End the connection for an error that this side found; the good-bye has it."""
        if self.state is not State.ENDED:
            self._break(error)

    def tick(self, now: float) -> None:
        """Advance the time to ``now``, in seconds on a monotonic clock.

        With a lease: a peer that is silent for its length is lost. The protocol sends a
        ping when half of it has passed. Call this several times within a lease.
        """
        if self.lease_s is None or self.state in (State.ENDED, State.LISTENING):
            return
        if (
            self._input_since_tick
            or self.arrived != self._arrived_at_tick
            or self._last_input_at is None
        ):
            self._input_since_tick = self._pinged = False
            self._arrived_at_tick = self.arrived
            self._last_input_at = now
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
    def unreceived(self) -> int:
        """Number of the other messages sent."""
        return self.sent - self.received

    @property
    def owed(self) -> int:
        """Number of messages that arrived, and for which no credit was returned."""
        return self.arrived + self.capacity - self.receivable

    @property
    def ended(self) -> bool:
        """True if no frame can be sent or received any more."""
        return self.state is State.ENDED

    def _receive_frame(self, kind: int, body: bytes) -> None:
        value = frames.decode(kind, body)
        if isinstance(value, Messages):
            self._receive_messages(value, kind)
            return
        following = TRANSITIONS.get((self.state, _RECEIVED[type(value)]))
        if following is None:
            raise _unexpected(kind, self.state)
        if isinstance(value, Ping):
            self._pongs += 1
            if self._pongs > PINGS_MAX:
                msg = f"more than {PINGS_MAX} pings arrived without room for an answer"
                raise ProtocolError(msg)
            self._send(Act.SEND_PONG, frames.encode(Pong(value.number)))
            return
        if isinstance(value, Credit):
            self._receive_count(self.received + value.received, "credit for")
        elif isinstance(value, Goodbye) and self.state is not State.HELLO_RECEIVED:
            self._receive_count(value.received, "good-bye after")
            self.plain = False
        elif isinstance(value, Hello):
            _check_offer(value)
        elif isinstance(value, Welcome):
            _check_choice(value, self.limit, self.descriptors)
            self._agree(value)
        self.state = following
        self._events.append(value)

    def _receive_messages(self, value: Messages, kind: int = _MESSAGE) -> None:
        if (self.state, _RECEIVE_MESSAGES) not in TRANSITIONS:
            raise _unexpected(kind, self.state)
        count = len(value.messages)
        if value.first != self.arrived + 1:
            msg = f"message {value.first} arrived after message {self.arrived}"
            raise ProtocolError(msg)
        if self.owed + count > self.capacity:
            msg = f"{self.owed + count} messages arrived, room for {self.capacity}"
            raise ProtocolError(msg)
        if value.descriptors > self.descriptors:
            msg = f"{value.descriptors} descriptors arrived, {self.descriptors} allowed"
            raise ProtocolError(msg)
        if max(map(len, value.messages)) > (longest := self.reader.longest()):
            msg = f"a message is longer than {longest} bytes"
            raise ProtocolError(msg + " before an answer" * self.reader.unanswered)
        self.gather_until = 0  # the next message may be an answer
        self.arrived += count
        self._events.append(value)
        self._return_credit()

    def _receive_count(self, received: int, what: str) -> None:
        """Record how many messages the peer has received in total."""
        if not self.received <= received <= self.sent:
            msg = f"{what} {received} messages, {self.sent} were sent"
            raise ProtocolError(msg)
        self.received = received
        self.sendable = received + self.capacity

    def _return_credit(self) -> None:
        taken = self.taken
        if taken and (self.arrived >= self.receivable or 2 * taken >= self.capacity):
            if (self.state, Act.SEND_CREDIT) not in TRANSITIONS:
                return
            self._send(Act.SEND_CREDIT, frames.encode(Credit(taken)))
            self.receivable += taken
            self.taken = 0

    def _agree(self, welcome: Welcome) -> None:
        self.capacity = self.sendable = self.receivable = welcome.capacity
        self.reader.capacity = welcome.capacity
        self.limit = self.reader.limit = welcome.limit
        self.descriptors = welcome.descriptors
        self.riding_min = max(1, welcome.capacity // 4)
        self.plain = not self.reader.unanswered

    def _frame_gathered(self) -> None:
        """Make a frame of the gathered messages, before anything else is sent."""
        self.gather_until = 0
        gathered, none = self.gathered, list[bytes]()
        parts = (frames.encode_run(self.sent - len(gathered) + 1, gathered),)
        # No call, and no new object but by the first: as in `begin_gathering`.
        self.outgoing += parts
        self.gathered = none

    def _send(self, act: Act, *parts: bytes) -> None:
        if self.gathered:
            self._frame_gathered()
        following = TRANSITIONS.get((self.state, act))
        if following is None:
            msg = f"cannot {act.name.lower()} while {self.state.value}"
            raise ValueError(msg)
        self.state = following
        self.outgoing += parts

    def _break(self, error: PeerLostError | ProtocolError) -> None:
        """End this connection; send the peer the reason if the state allows it."""
        if (self.state, Act.SEND_REFUSED) in TRANSITIONS:
            self.refuse(Refusal.PROTOCOL, str(error))
        elif self.state not in _UNMET and (self.state, Act.SEND_GOODBYE) in TRANSITIONS:
            self.disconnect(error)
        self._lose(error)

    def _lose(self, error: PeerLostError | ProtocolError) -> None:
        self.state, self.plain = State.ENDED, False
        self.reader.drop()
        self._events.append(Lost(error))


def _check_offer(hello: Hello) -> None:
    low, high = frames.VERSIONS
    if hello.versions[0] > high or hello.versions[1] < low:
        msg = f"versions {hello.versions} offered, {frames.VERSIONS} supported"
        raise ProtocolError(msg)


def _check_choice(welcome: Welcome, limit: int, descriptors: int) -> None:
    if welcome.version != frames.VERSIONS[1]:
        msg = f"version {welcome.version} was chosen, {frames.VERSIONS} offered"
        raise ProtocolError(msg)
    if welcome.limit > limit:
        msg = f"messages of {welcome.limit} bytes were chosen, {limit} offered"
        raise ProtocolError(msg)
    if welcome.descriptors > descriptors:
        msg = f"{welcome.descriptors} descriptors were chosen, {descriptors} offered"
        raise ProtocolError(msg)


def _unexpected(kind: int, state: State) -> ProtocolError:
    """Return the error for a received frame that the state does not allow."""
    return ProtocolError(f"{Frame(kind).name} frame arrived while {state.value}")
