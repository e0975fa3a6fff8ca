"""`Hooks`: what a feature gives to a process; the kernel knows features by them alone.

A list, such as ``on_emptied``, holds the functions of all features, and is empty in a
process without any. A slot, such as `Moves`, has one feature at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bus.core.local.actions import FeatureAction
from bus.core.local.routing_table import Entry
from bus.core.streams.incoming_streams import Horizons
from bus.core.wire import Eliminate, Error, Reason

if TYPE_CHECKING:
    from bus.core.peer.peer import Peer
    from bus.core.wire import Search

__all__ = ["Hooks", "Moves"]


def _ignore(*_: object) -> None:
    pass


class Hooks(Struct, frozen=True):
    """The functions of one feature, for one process; each does nothing by default.

    Those from ``errors`` to ``on_emptied`` are called under the exchange's lock, within
    the decision, and leave their actions in ``topology.todo``.

    errors: by its reason, the handler of an ERROR frame; called with the peer.
    on_departure: a task of another process has left the name that it held; called with
      its ELIMINATE.
    on_emptied: the unread messages of a departed task of this process are parked.
    begin: the process has other processes from now on; called with the remote manager,
      of which the feature may fill slots.
    performers: perform the actions that the feature defines, without a lock. Each gets
      the action, those queued behind it, and the lock that guards these. After an
      interrupt it is called again. After a `HorizonError` the process leaves the bus.
    horizons: the slot for a durable process (AMO-20).
    incarnation: the least incarnation that this life of the process may have (AMO-17).
    end: nothing arrives any more; may be called twice.
    """

    errors: Mapping[Reason, Callable[[Any, Error, float], object]] = {}
    on_departure: Callable[[Eliminate, float], object] = _ignore
    on_emptied: Callable[[Entry, float], object] = _ignore
    begin: Callable[[Any], object] = _ignore
    performers: Mapping[type[FeatureAction], Callable[[Any, Any, Any], object]] = {}
    horizons: Horizons | None = None
    incarnation: int = 0
    end: Callable[[], object] = _ignore


class Moves:
    """A slot: where departed tasks go on; this is the null object: no task does."""

    __slots__ = ()

    def answers(self, peer: Peer, frame: Search) -> bool:  # noqa: ARG002
        """Answer a search for a task that goes on elsewhere; False if it does not."""
        return False

    def fails(self, name: str) -> bool:  # noqa: ARG002
        """Fail the messages parked for such a task, if they need no search."""
        return False

    def forget(self, name: str) -> None:
        """Forget a departed task, since another one has its name."""
