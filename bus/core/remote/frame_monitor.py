"""`FrameMonitor`: a monitor of the frames of one process, for inspectors (OPEN-12).

The comm thread records frames, and the inspector's thread takes them out. Neither waits
for the other. A frame that finds no room is counted and left out. The comm thread uses
the monitor only while it has a listener. So monitoring takes a bounded part of a
process's time, however many frames its links carry.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from bus.address import is_system
from bus.core.remote.frame_facts import facts, messages
from bus.core.wire import (
    AddRelay,
    Batch,
    Dismiss,
    Dismissed,
    Eliminate,
    Export,
    Gap,
    Hello,
    Search,
    Unrelay,
    Welcome,
)
from bus.core.wire.task_frames import Subscribe
from bus.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bus.core.remote.remote_manager import RemoteManager
    from bus.core.wire import ControlFrame, Frame
    from bus.registration import Key, RegistrationId

__all__ = ["FRAMES_MAX", "LEASE_S", "LISTENERS_MAX", "FrameMonitor"]

FRAMES_MAX: Final = 256  # waiting for one listener
LISTENERS_MAX: Final = 8
LEASE_S: Final = 10.0  # a listener that does not ask again is dropped after this
_KNOWN_MAX: Final = 4096


class _Listener(Struct, eq=False):
    """One subscriber to frames.

    types: the frame types to record; empty for all.
    until: when its lease ends, in seconds.
    left_out: how many frames were left out, written by the comm thread alone.
    told: how many of these were reported, written by the other thread alone.
    """

    types: frozenset[str]
    until: float
    frames: deque[dict[str, Any]] = field(default_factory=deque)
    left_out: int = 0
    told: int = 0


class FrameMonitor:
    """The frame monitor: it records what a process sends and receives on its links.

    Args:
        remote: the remote manager of the process.
        clock: returns the wall-clock time, in nanoseconds.

    `on_frame` is for the comm thread; all other methods are for one other thread.

    No listener observes itself: frames on a link with a listening process are not
    recorded, nor frames about the bus's own tasks, which a listener uses.
    """

    __slots__ = ("_clock", "_known", "_links", "_listeners", "_remote")

    def __init__(self, remote: RemoteManager, clock: Callable[[], int]) -> None:
        self._remote: Final = remote
        self._clock: Final = clock
        # Replaced as a whole, so it is read without a lock.
        self._listeners: dict[RegistrationId, _Listener] = {}
        # For the comm thread: the last known peer of each link, and the last known task
        # of each relay number. A frame may be recorded after these were removed.
        self._links: Final[dict[int, Key]] = {}
        self._known: Final[dict[tuple[Key, int], str]] = {}

    # For the inspector's thread.

    @property
    def idle(self) -> bool:
        """True if there is no listener."""
        return not self._listeners

    def take_frames(
        self, who: RegistrationId, types: Collection[str], now: float
    ) -> dict[str, Any] | None:
        """Renew a listener's lease; return the frames recorded since its last call.

        types: names of the frame types to record; empty for all.

        Returns None if there are too many listeners.
        """
        listener = self._listeners.get(who)
        if listener is None:
            if len(self._listeners) >= LISTENERS_MAX:
                return None
            listener = _Listener(frozenset(types), now + LEASE_S)
            self._listeners = {**self._listeners, who: listener}
        listener.types, listener.until = frozenset(types), now + LEASE_S
        frames = [listener.frames.popleft() for _ in range(len(listener.frames))]
        left_out = listener.left_out - listener.told
        listener.told += left_out
        return {"frames": frames, "left_out": left_out}

    def leave(self, who: RegistrationId) -> None:
        """Unsubscribe; does nothing if not subscribed."""
        self._listeners = {
            each: listener for each, listener in self._listeners.items() if each != who
        }

    def review(self, now: float) -> float | None:
        """Drop listeners whose lease has ended; return when the next lease ends.

        Returns None if there is no listener.
        """
        self._listeners = {
            each: listener
            for each, listener in self._listeners.items()
            if listener.until > now
        }
        return min((each.until for each in self._listeners.values()), default=None)

    # For the comm thread.

    def on_frame(self, link: int, frame: Frame, *, out: bool) -> None:
        """Record a frame; see `Watcher`."""
        listeners = self._listeners
        kind = frame.type.name
        ears = [
            each for each in listeners.values() if not each.types or kind in each.types
        ]
        if not ears:
            return
        other = self._other(link, frame, out=out)
        if any((each.machine, each.process) == other for each in listeners):
            return
        ready = []
        for each in ears:
            if len(each.frames) < FRAMES_MAX:
                ready.append(each)
            else:
                each.left_out += 1
        if not ready:
            return
        said = self._contents(frame, other, out=out)
        if said is None:
            return
        machine, process = other
        here = machine in {"", self._remote.topology.me.machine}
        noted = {
            "at_ns": self._clock(),
            "direction": "out" if out else "in",
            "other": process if here else f"{machine}/{process}",
            "type": kind,
            **said,
        }
        for each in ready:
            each.frames.append(noted)

    def _other(self, number: int, frame: Frame, *, out: bool) -> Key:
        """Return the peer at the other end of a link; empty names if it is unknown."""
        link = self._remote.links.by_number.get(number)
        if link is not None and link.peer is not None:
            key = link.peer.key
        elif isinstance(frame, (Hello, Welcome)) and not out:
            key = (frame.identity.machine, frame.identity.process)
        else:
            return self._links.get(number, ("", ""))
        if len(self._links) >= _KNOWN_MAX:
            self._links.clear()
        self._links[number] = key
        return key

    def _contents(
        self, frame: Frame, other: Key, *, out: bool
    ) -> dict[str, Any] | None:
        """Return the contents of a frame; None if it is about the bus's own tasks."""

        def own(number: int) -> str:
            task = self._remote.relays.task(number)
            name = None if task is None else task.name
            return self._name(self._remote.topology.key, number, name)

        def theirs(number: int) -> str:
            peer = self._remote.topology.peers.get(other)
            relay = None if peer is None else peer.relays.get(number)
            name = None if relay is None else relay.entry.name
            return self._name(other, number, name)

        sender, receiver = (own, theirs) if out else (theirs, own)
        if isinstance(frame, Batch):
            runs = messages(frame, sender, receiver, is_system)
            if runs is None:
                return None
            return {"first": frame.first, "floor": frame.floor, "runs": runs}
        for part in ("task", "sender", "subscriber"):
            if (task := getattr(frame, part, None)) is not None:
                self._name((task.id.machine, task.id.process), task.relay, task.name)
        here = self._remote.topology.me.machine
        said = facts(frame, here, sender, receiver)
        if is_system(_concerns(frame, said)):
            return None
        return {"facts": said}

    def _name(self, key: Key, number: int, name: str | None) -> str:
        """Return the name of a task by its relay number; record it if it is given."""
        if name is None:
            return self._known.get((key, number), f"#{number}")
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[key, number] = name
        return name


def _concerns(frame: ControlFrame, said: dict[str, Any]) -> str:
    """Return the name, or the pattern of names, that a frame is about, if any."""
    match frame:
        case Search() | Export() | Eliminate():
            return frame.name
        case AddRelay():
            return frame.task.name
        case Subscribe():
            return Specification.parse(frame.specification).pattern
        case Unrelay() | Dismiss() | Dismissed() | Gap():
            return str(said["task"])
        case _:
            return ""
