"""`FrameMonitor`: a monitor of the frames of one process, for inspectors (OPEN-12).

The comm thread records frames, and the inspector's thread takes them out. Neither waits
for the other. A frame that finds no room is counted and left out. The comm thread uses
the monitor only while it has a listener. So monitoring takes a bounded part of a
process's time, however many frames its links carry.

`facts` and `messages` return the contents of a frame as plain and readable values.
Frames refer to tasks by relay numbers, and carry bodies as bytes. Here tasks have
names, and the bytes of bodies are counted. Payloads are in neither.

`MonitorLeases` has the listeners of the monitor, and their leases (OPEN-12). A task
listens by a command ``{"frames": [...]}`` to the inspector of the process, with the
names of frame types, or none for all. The answer holds the frames noted since its last
such command, and the number of frames left out. ``{"frames": None}`` gets that answer,
too, and ends the lease. It also ends after `LEASE_S` seconds without a command, since a
listener may be killed.

Any process that may join the bus may ask, as for everything that an inspector reports.
The contents of messages are never reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from msgspec import Struct, field

from bus.features.subscriptions.frames import Subscribe
from bus.kernel.peer.relay import AUDIENCE
from bus.kernel.wire import (
    FAILED,
    WANTS_REPLY,
    Ack,
    AddRelay,
    Batch,
    Characteristics,
    Dismiss,
    Dismissed,
    Eliminate,
    Export,
    FrameType,
    Gap,
    Hello,
    Identity,
    RequestId,
    Search,
    Unrelay,
    Welcome,
)
from bus.model.address import is_system
from bus.model.message import NOREPLY
from bus.model.registration import RegistrationId
from bus.model.specification import Specification
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.wire import ControlFrame, Frame
    from bus.model.message import Incoming
    from bus.model.registration import Key
    from bus.process.exchange import Exchange
    from bus.process.thread_manager import ThreadManager

__all__ = [
    "ALL",
    "FRAMES_MAX",
    "LEASE_S",
    "LISTENERS_MAX",
    "FrameMonitor",
    "MonitorLeases",
    "facts",
    "messages",
]

ALL: Final = "all subscribers"  # the receivers of a notification

_RUNS_MAX: Final = 16  # listed per frame; any others are only counted
_LISTED_MAX: Final = 8  # listed per field

# Fields that matter only to the two ends of a stream.
_DULL: Final = {"nonce", "window", "message_bytes_max", "versions", "overflow", "token"}
_FLAGS: Final = WANTS_REPLY | FAILED

Namer: TypeAlias = "Callable[[int], str]"


def facts(
    frame: ControlFrame, here: str, sender: Namer, receiver: Namer
) -> dict[str, Any]:
    """Return the fields of a control frame that carry information, by name.

    here: the machine whose name is omitted.
    sender, receiver: as for `messages`.
    """
    found: dict[str, Any] = {}
    for name in frame.__struct_fields__:
        value = getattr(frame, name)
        if name in _DULL or value is None or value is False or value in ((), ""):
            continue
        match frame, name:
            case Ack(), "extracted":
                taken = islice(value, _LISTED_MAX)
                found["taken"] = {
                    ALL if relay == AUDIENCE else sender(relay): number
                    for relay, number in taken
                }
            case ((Unrelay() | Dismissed() | Gap()), "relay"):
                found["task"] = sender(value)
            case Dismiss(), "relay":
                found["task"] = receiver(value)
            case _:
                found[name] = _plain(value, here)
    return found


def _plain(value: Any, here: str) -> Any:
    plain = value
    match value:
        case RegistrationId():
            plain = (
                f"{_process_name(value.machine, value.process, here)}#{value.number}"
            )
        case RequestId():
            plain = (
                f"{_process_name(value.machine, value.process, here)}?{value.number}"
            )
        case Characteristics():
            plain = f"{value.name} ({value.visibility.value}, {_plain(value.id, here)})"
        case Identity():
            process = _process_name(value.machine, value.process, here)
            plain = f"{process} ({value.role.value}, pid {value.process_id})"
        case Enum():
            plain = value.value
        case tuple():
            plain = [_plain(each, here) for each in value[:_LISTED_MAX]]
    return plain


def _process_name(machine: str, process: str, here: str) -> str:
    return process if machine == here else f"{machine}/{process}"


def messages(
    batch: Batch, sender: Namer, receiver: Namer, hidden: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Return the runs of a frame; runs that differ only in their bodies are merged.

    sender, receiver: return the name of a task of the process that has sent the frame,
      and of the process that receives it.
    hidden: True for the name of a task whose messages are left out.

    Returns None if all messages are left out.
    """
    listed: list[dict[str, Any]] = []
    last: object = None
    seen = 0
    for run in islice(batch.runs, _RUNS_MAX):
        count, size = len(run.bodies), sum(map(len, run.bodies))
        seen += count
        alike = (run.source, run.to, run.kind, run.hop, run.flags & _FLAGS)
        if alike == last:
            listed[-1]["count"] += count
            listed[-1]["bytes"] += size
            continue
        source = sender(run.source)
        to = ALL if run.to == AUDIENCE else receiver(run.to)
        if hidden(source) or hidden(to):
            continue
        last = alike
        listed.append(
            {
                "from": source,
                "to": to,
                "kind": run.kind.name.lower(),
                "count": count,
                "bytes": size,
                "hop": run.hop,
                "wants_reply": bool(run.flags & WANTS_REPLY),
                "failed": bool(run.flags & FAILED),
            }
        )
    if seen < batch.count:
        listed.append({"more": batch.count - seen})
    return None if seen and not listed else listed


FRAMES_MAX: Final = 256  # waiting for one listener
LISTENERS_MAX: Final = 8
_NO_FRAMES: Final[dict[str, Any]] = {"frames": (), "left_out": 0}
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

    def take(self) -> dict[str, Any]:
        """Return the frames recorded since the last call, and the number left out."""
        frames = [self.frames.popleft() for _ in range(len(self.frames))]
        left_out = self.left_out - self.told
        self.told += left_out
        return {"frames": frames, "left_out": left_out}


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
        self, subscriber: RegistrationId, types: Collection[str], now: float
    ) -> dict[str, Any] | None:
        """Renew a listener's lease; return the frames recorded since its last call.

        types: names of the frame types to record; empty for all.

        Returns None if there are too many listeners.
        """
        listener = self._listeners.get(subscriber)
        if listener is None:
            if len(self._listeners) >= LISTENERS_MAX:
                return None
            listener = _Listener(frozenset(types), now + LEASE_S)
            self._listeners = {**self._listeners, subscriber: listener}
        listener.types, listener.until = frozenset(types), now + LEASE_S
        return listener.take()

    def leave(self, subscriber: RegistrationId) -> dict[str, Any]:
        """End a listener's lease; return as `take_frames`, nothing if it has none."""
        listener = self._listeners.get(subscriber)
        if listener is None:
            return _NO_FRAMES
        self._listeners = {
            each: other
            for each, other in self._listeners.items()
            if other is not listener
        }
        return listener.take()

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


_TYPES: Final = frozenset(FrameType.__members__)


class MonitorLeases:
    """The frame monitor of a process; it is on the links while any task listens.

    Args:
        exchange: the exchange of the process.
        manager: the manager of the thread in which all methods run.
    """

    __slots__ = ("_exchange", "_manager", "_monitor", "_reviewing")

    def __init__(self, exchange: Exchange, manager: ThreadManager) -> None:
        self._exchange: Final = exchange
        self._manager: Final = manager
        self._monitor: FrameMonitor | None = None  # made for the first listener
        # True while a review of the leases is scheduled.
        self._reviewing: bool = False

    def answer(self, message: Incoming, types: object, *, closed: bool) -> Any:
        """Return the answer to a command: the frames noted since the last one.

        closed: as `Inspector.closed`.
        """
        if types is None:
            if self._monitor is None:
                return _NO_FRAMES
            frames = self._monitor.leave(message._source.id)
            self._update_monitor()
            return frames
        if not _is_legal(types):
            message.respond(error="frames must be None or a list of frame types")
            return NOREPLY
        if closed:
            return _NO_FRAMES
        if self._monitor is None:
            comm = self._exchange.comm
            assert comm is not None
            self._monitor = FrameMonitor(comm.remote, _sync.wall_ns)
        taken = self._monitor.take_frames(message._source.id, types, _sync.monotonic())
        if taken is None:
            message.respond(error=f"its frames already have {LISTENERS_MAX} listeners")
            return NOREPLY
        self._update_monitor()
        if not self._reviewing:
            self._reviewing = True
            self._manager.call_at(_sync.monotonic() + LEASE_S, self._review)
        return taken

    def _update_monitor(self) -> None:
        """Put the monitor on the links, or take it off."""
        comm, monitor = self._exchange.comm, self._monitor
        assert comm is not None
        assert monitor is not None
        comm.watcher = None if monitor.idle else monitor

    def _review(self) -> None:
        """Remove the listeners whose lease has run out."""
        assert self._monitor is not None
        again_at = self._monitor.review(_sync.monotonic())
        self._update_monitor()
        self._reviewing = again_at is not None
        if again_at is not None:
            self._manager.call_at(again_at, self._review)


def _is_legal(types: object) -> TypeGuard[Sequence[str]]:
    return isinstance(types, Sequence) and all(
        isinstance(each, str) and each in _TYPES for each in types
    )
