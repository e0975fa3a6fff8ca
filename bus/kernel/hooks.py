"""The hooks and the slots: how features plug into the lower parts of the bus.

The kernel, the process and the API know no feature. A feature gives its hooks to each
bus that uses it, one set at each moment that concerns it, or an object for a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.peer.peer import Peer
from bus.kernel.streams.incoming_streams import Horizons
from bus.kernel.tasks.routing_table import Entry

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Send
    from bus.model.snapshot import SharedMemoryInfo

__all__ = [
    "Bodies",
    "Hooks",
    "JoinHooks",
    "Moves",
    "OpenHooks",
    "Process",
    "Row",
    "Watcher",
]

F = TypeVar("F", bound=wire.Frame)


class Row(Struct, Generic[F], frozen=True):
    """How frames of one type, or errors of one reason, are handled.

    handle: called with the peer, the frame and the time, in seconds; with the link in
      place of the peer if ``of_link`` is set.
    check: returns the frame as it is handled; raises a `WireError` if the peer is not
      entitled to send it (BUS-SEC-7).
    counted: False if the peer does not send it again on the next link.
    """

    kind: type[F] | wire.Reason
    handle: Callable[[Any, F, float], object]
    check: Callable[[Any, F], F] | None = None
    counted: bool = True
    of_link: bool = False


class OpenHooks(Struct, frozen=True, kw_only=True):
    """The hooks that a feature gives when a bus opens; empty by default.

    incarnation: the least incarnation that this life of the process may have (AMO-17).
    horizons: the slot of a durable process (AMO-20).
    bodies: returns an object for the slot `Bodies`, when this process gets links.
    performers: perform the actions that the feature defines; see `Exchange.performers`.
    on_left: nothing arrives any more; perhaps called repeatedly.
    """

    incarnation: int = 0
    horizons: Horizons | None = None
    bodies: Callable[[Process], Bodies] | None = None
    performers: Mapping[type, Callable[[Any, Any, Any], object]] = {}
    on_left: Callable[[], object] = list


class JoinHooks(Struct, frozen=True):
    """The hooks that a feature gives once this process has joined its network.

    begin: called at once; if it raises, the join fails.
    end: called before this process leaves; perhaps repeatedly, or without `begin`.
    """

    begin: Callable[[], object]
    end: Callable[[], object]


_OnPeer: TypeAlias = "Callable[[Peer, float], object]"


class Hooks(Struct, kw_only=True):
    """The hooks of the comm thread: the functions to call, in order; none by default.

    A feature gives its own when the comm thread begins. A time is in seconds. The
    functions are called in place, under the exchange's lock, and append their actions
    to ``topology.todo``.

    frames: rows of the table of handlers, also for reasons of errors.
    answers: take the answer to a request; true if the feature has made the request.
    on_link: the peer's stream is open on a new link.
    on_joined: the first signalling link with the peer is open.
    on_pong: a PONG of a number arrived.
    on_master: this process has become master.
    on_emptied: the unread messages of a departed task of this process are parked.
    on_process_lost: a process is lost; nothing that is kept for it is dropped yet.
    on_new_epoch: a peer has counted this process as lost, and is not lost itself; the
      state kept for it is not dropped yet.
    on_peer_lost: the state kept for a peer is dropped, but for its relays.
    on_eliminated: a task of another process can no longer be found; called with its
      ELIMINATE, and with True if it held its name, as far as this process knows.
    wants: true if a process subscribes to any task here, so that its link is in use.
    peers: return the processes with a subscriber to a task here, each once. One feature
      at most gives it.
    """

    frames: tuple[Row[Any], ...] = ()
    answers: tuple[Callable[[Peer, wire.AddRelay, float], object], ...] = ()
    on_link: tuple[_OnPeer, ...] = ()
    on_joined: tuple[_OnPeer, ...] = ()
    on_pong: tuple[Callable[[Peer, int, float], object], ...] = ()
    on_master: tuple[Callable[[float], object], ...] = ()
    on_emptied: tuple[Callable[[Entry, float], object], ...] = ()
    on_process_lost: tuple[_OnPeer, ...] = ()
    on_new_epoch: tuple[_OnPeer, ...] = ()
    on_peer_lost: tuple[_OnPeer, ...] = ()
    on_eliminated: tuple[Callable[[wire.Eliminate, bool, float], object], ...] = ()
    wants: tuple[Callable[[Peer], object], ...] = ()
    peers: tuple[Callable[[Entry], list[Peer]], ...] = ()

    def add(self, others: Hooks) -> None:
        """Add the functions of one more feature."""
        for name in self.__struct_fields__:
            setattr(self, name, (*getattr(self, name), *getattr(others, name)))


class Watcher(Protocol):
    """A slot of the comm thread: sees the frames of all links.

    While there is a watcher, no task thread uses a link.
    """

    def on_frame(self, link: int, frame: wire.Frame, *, out: bool) -> None:
        """See a frame before it is put on its link, or, once read, before its handling.

        The caller holds the lock of the links; no other lock is taken here.

        out: True for a frame of this process.
        """


class Process(Protocol):
    """What a feature may ask of its process; any thread may call the methods."""

    def wake_unless_soon(self) -> None:
        """Wake the comm thread, unless it wakes soon.

        It takes no lock: a thread may call it within a garbage collection.
        """

    def ask(self, request: Callable[[], object]) -> None:
        """Let the comm thread call a function, after everything posted before."""

    def process_id(self, link: int) -> int | None:
        """Return the process at the other end of a link, if the system reports it."""

    def link_names(self) -> Mapping[int, str]:
        """Return the name of the process at each link; takes the exchange's lock."""


class Bodies:
    """A slot: a second way for the bodies of long messages, beside their links.

    This is the null object: each body goes by its link.

    The caller of all methods but `is_due` and `info` holds `Rounds.hold`, and perhaps
    the exchange's lock. An object takes its own lock last, and calls no code of users
    under it. If a method of the fast path is interrupted, the caller drops the link.

    ended_at: a link for each lease that has ended and is not reported yet. Any thread
      may read it.
    takes: the first bytes of the frames that `take` handles.
    """

    __slots__ = ()

    ended_at: Collection[int] = ()
    takes: Collection[bytes] = ()

    def begin(self, _send: Callable[[int, wire.Frame], object]) -> Hooks:
        """Return the hooks of the feature, for the remote manager.

        send: as of `Topology`.
        """
        return Hooks()

    def pieces(self, _link: int, frame: wire.Frame) -> Sequence[bytes]:
        """Return the data to put on a link for a frame, in order (MC-29)."""
        return wire.pieces(frame)

    def put(self, link: int, frame: bytes | wire.Batch) -> Sequence[bytes]:
        """Return the data for a frame that a task thread sends, with the reports."""
        return (frame,) if isinstance(frame, bytes) else self.pieces(link, frame)

    def shares(self, _link: int) -> bool:
        """Return True if the last long body sent on a link went the second way."""
        return False

    def end_round(self) -> Sequence[tuple[int, bytes]]:
        """Return the data to put on links behind the frames, with their links."""
        return ()

    def resolve_body(self, _link: int, frame: wire.Frame) -> wire.Frame:
        """Return a frame with its body, if it has only the location of that.

        Raises:
            WireError: there is no such body.
        """
        if (
            isinstance(frame, wire.Batch)
            and len(frame.runs) == 1
            and frame.runs[0].flags & wire.LEASED
        ):
            raise WireError("MSG has a body in shared memory, which is not in use here")
        return frame

    def take(self, _link: int, _frame: bytes) -> bool:
        """Handle a frame outside a round; return False if it is malformed."""
        return False

    def is_due(self, *, soon: bool) -> bool:
        """Return True if leases have ended whose report cannot wait.

        soon: True if the next round comes soon anyway.
        """
        del soon
        return False

    def take_ended(self) -> Sequence[Send]:
        """Return the reports of ended leases, which go in front of messages."""
        return ()

    def info(self) -> SharedMemoryInfo | None:
        """Return the state of the shared memory (MC-39); the caller holds no lock."""
        return None

    def forget(self, link: int) -> None:
        """Release what a lost or closed link holds."""

    def close(self) -> None:
        """Release everything; views that processes or tasks have stay readable."""


class Moves:
    """A slot: where departed tasks go on; this is the null object: no task does."""

    __slots__ = ()

    def answers(self, _peer: Peer, _frame: wire.Search) -> bool:
        """Answer a search for a task that goes on elsewhere; False if it does not."""
        return False

    def fails(self, _name: str) -> bool:
        """Fail the messages parked for such a task, if they need no search."""
        return False

    def forget(self, name: str) -> None:
        """Forget a departed task, since another one has its name."""
