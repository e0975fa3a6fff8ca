"""`Hooks` and the slots: how features plug into the lower parts of the bus.

The kernel, the process and the API know no feature. A feature gives a `Hooks` to each
bus that uses it, or an object for a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from bus.core import wire
from bus.core.local.routing_table import Entry
from bus.core.peer.peer import Peer
from bus.core.streams.incoming_streams import Horizons

__all__ = ["Hooks", "Moves", "Row", "Watcher"]

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


def _nothing(*_: object) -> None:
    return None


class Hooks(Struct, frozen=True, kw_only=True):
    """The functions of one feature; each is empty by default. A time is in seconds.

    Those from ``frames`` to ``peers`` are called in place, under the exchange's lock,
    and append their actions to ``topology.todo``.

    incarnation: the least incarnation that this life of the process may have (AMO-17).
    horizons: the slot of a durable process (AMO-20).
    performers: perform the actions that the feature defines; see `Exchange.performers`.
    begin: called once this process has joined its network; if it raises, the join
      fails.
    end: called before this process leaves; perhaps repeatedly, or without `begin`.
    on_left: nothing arrives any more; perhaps called repeatedly.
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

    incarnation: int = 0
    horizons: Horizons | None = None
    performers: Mapping[type, Callable[[Any, Any, Any], object]] = {}
    begin: Callable[[], object] = _nothing
    end: Callable[[], object] = _nothing
    on_left: Callable[[], object] = _nothing
    frames: tuple[Row[Any], ...] = ()
    answers: Callable[[Peer, wire.AddRelay, float], object] = _nothing
    on_link: Callable[[Peer, float], object] = _nothing
    on_joined: Callable[[Peer, float], object] = _nothing
    on_pong: Callable[[Peer, int, float], object] = _nothing
    on_master: Callable[[float], object] = _nothing
    on_emptied: Callable[[Entry, float], object] = _nothing
    on_process_lost: Callable[[Peer, float], object] = _nothing
    on_new_epoch: Callable[[Peer, float], object] = _nothing
    on_peer_lost: Callable[[Peer, float], object] = _nothing
    on_eliminated: Callable[[wire.Eliminate, bool, float], object] = _nothing
    wants: Callable[[Peer], object] = _nothing
    peers: Callable[[Entry], list[Peer]] | None = None


class Watcher(Protocol):
    """A slot of the comm thread: sees the frames of all links.

    While there is a watcher, no task thread uses a link.
    """

    def on_frame(self, link: int, frame: wire.Frame, *, out: bool) -> None:
        """See a frame before it is put on its link, or, once read, before its handling.

        The caller holds the lock of the links; no other lock is taken here.

        out: True for a frame of this process.
        """


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
