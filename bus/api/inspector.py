"""`Inspector`: the task by which a process reports its identity and its state.

Each process of a bus has one, named ``_bus/`` plus the process name. It runs in a
thread of its own, so it answers while all tasks of the user are busy. It answers any
command with one map of plain values. The state of the manager is read under the
exchange's lock; each counter of an account has a single writer and is read without one.

A command ``{"frames": ...}`` requests the frames that cross the links of the process;
see `MonitorLeases`. The answer to ``{"unanswered": name}`` is the reason why the task
of that name does not answer; see `bus.api.call`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from bus.address import SYSTEM, check_module_name
from bus.api.arguments import new_account_limits
from bus.api.receiver import Receiver
from bus.api.unanswered import why_unanswered
from bus.core.peer.relay_counters import ENDS, RelayCounters
from bus.core.wire import LinkKind
from bus.links.monitor_leases import MonitorLeases
from bus.registration import Visibility
from bus.threads.account import Account
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.api.snapshot import BusSnapshot, TaskInfo
    from bus.config import BusConfig
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.peer.relay import Relay
    from bus.core.remote.remote_manager import RemoteManager
    from bus.message import Incoming
    from bus.shared_memory_info import SharedMemoryInfo
    from bus.threads.router import Router

__all__ = ["Inspector", "inspector_of"]


def inspector_of(process: str) -> str:
    """Return the name of the inspector of a process."""
    return f"{SYSTEM}/{process}"


class Inspector:
    """Reports the state of one process; started once, closed once or more.

    Args:
        bus: the name of the bus.
        router: the router of this process.
        look: returns the user's objects on the bus in this process, and the thread
          managers that host them, thread by thread.

    monitor_leases: answers requests for frames.
    """

    __slots__ = (
        "_bus",
        "_entry",
        "_exchange",
        "_look",
        "_manager",
        "_router",
        "_since",
        "_thread",
        "monitor_leases",
    )

    def __init__(
        self,
        bus: str,
        router: Router,
        look: Callable[[], tuple[BusSnapshot, Sequence[ThreadManager]]],
    ) -> None:
        self._bus: Final = bus
        self._router: Final = router
        self._exchange: Final = router.exchange
        self._look: Final = look
        self._since: Final = _sync.monotonic()
        self._manager: Final = ThreadManager("inspector")
        self._entry: Entry | None = None
        self._thread: _sync.Thread | None = None
        self.monitor_leases: Final = MonitorLeases(self._exchange, self._manager)

    # Life cycle.

    def begin(self, config: BusConfig) -> None:
        """Answer commands from now on, until `close`.

        If the process name leaves no room for the prefix of the inspector's name, the
        process has no inspector.
        """
        name = inspector_of(self._exchange.manager.process)
        try:
            check_module_name(name)
        except ValueError:
            return
        account = Account(**new_account_limits(config, "error", None))
        receiver = Receiver(self._router, config, account, self._answer, None, None)
        self._entry = self._exchange.register(
            name, Visibility.PUBLIC, self._bus, self._manager, receiver
        )
        self._thread = _sync.Thread(
            target=self._serve, name=f"{self._bus} inspector", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left
            self._thread = None
            # Deregister the task here: otherwise a close waits for it for ever.
            self._manager.stop(_sync.monotonic())
            self._serve()
            raise

    def close(self) -> None:
        """Leave the bus; return after the thread has ended."""
        if self._thread is not None:
            self._manager.stop(_sync.monotonic())
            self._thread.join()

    def _serve(self) -> None:
        manager, entry = self._manager, self._entry
        assert entry is not None
        manager.adopt()
        manager.run()
        self._exchange.deregister(entry, final=True)
        # The entry may still be on its way here, and has to be opened first.
        while entry.host is not None or not manager.end():
            manager.poll(None)

    # Reports.

    def _answer(self, message: Incoming) -> Any:
        """Return the requested frames or reason, or the state of the process."""
        asked = message.payload
        if isinstance(asked, Mapping) and "frames" in asked:
            return self.monitor_leases.answer(message, asked["frames"])
        if isinstance(asked, Mapping) and "unanswered" in asked:
            named, name = self._exchange.manager.table.named, str(asked["unanswered"])
            return why_unanswered(self._exchange.query(lambda: named(name)))
        return self._about()

    def _about(self) -> dict[str, Any]:
        exchange = self._exchange
        seen, managers = self._look()
        told: dict[str, Any] = {
            "bus": seen.bus,
            "machine": seen.machine,
            "process": seen.process,
            "pid": os.getpid(),
            "role": "master",
            "since_s": _sync.monotonic() - self._since,
            "threads": _threads(seen, managers),
            "parked": dict(seen.parked),
            "gave_up": exchange.query(lambda: exchange.manager.parked.given_up),
            "links": [],
            "relays": [],
            "shared_memory": _shared_memory(seen.shared_memory),
        }
        if seen.notifying is not None:
            told["notifying"] = asdict(seen.notifying)
        comm = exchange.comm
        if comm is not None:
            told |= exchange.query(lambda: _of_others(comm.remote))
        if told["role"] == "master":
            told["machines"] = [
                asdict(each) | {"state": each.state.value} for each in seen.machines
            ]
            told["ignored_announcements"] = dict(seen.ignored_announcements)
        return told


def _threads(
    seen: BusSnapshot, managers: Sequence[ThreadManager]
) -> list[dict[str, Any]]:
    """Describe each thread, and the tasks in it.

    blocked: the number of senders that wait for room in the thread.
    """
    tasks = {each.address.module: each for each in seen.tasks}
    return [
        {
            "name": thread.name,
            "busy_s": thread.busy_s,
            "callbacks": thread.callbacks,
            "wakeups": thread.wakeups,
            "blocked": len(manager.inbox.room),
            "tasks": [_task(tasks[name]) for name in thread.tasks if name in tasks],
        }
        for thread, manager in zip(seen.threads, managers, strict=True)
    ]


def _task(task: TaskInfo) -> dict[str, Any]:
    return {
        "name": task.address.module,
        "visibility": task.visibility.value,
        "commands": asdict(task.commands),
        "subscriptions": [
            {
                "to": str(each.specification),
                "notifications": asdict(each.notifications),
                "gap": each.gap,
                "missed": each.missed,
            }
            for each in task.subscriptions
        ],
        "questions": task.questions,
        "failures": task.failures,
        "late": task.late,
        "unasked": task.unasked,
        "undelivered": task.undelivered,
        "no_subscriber": task.no_subscriber,
    }


def _shared_memory(memory: SharedMemoryInfo | None) -> dict[str, Any] | None:
    """Describe the shared memory; slabs of one size are described together.

    An arena may have thousands of slabs, but only a few sizes of buffers.
    """
    if memory is None:
        return None
    sizes: dict[int, dict[str, int]] = {}
    for slab in memory.slabs:
        size = sizes.setdefault(slab.buffer_bytes, dict.fromkeys(_SLAB_COUNTS, 0))
        size["slabs"] += 1
        for each in _SLAB_COUNTS[1:]:
            size[each] += getattr(slab, each)
    slabs = [{"buffer_bytes": size, **sizes[size]} for size in sorted(sizes)]
    told: dict[str, Any] = to_builtins(memory)
    return told | {"slabs": slabs}


_SLAB_COUNTS: Final = ("slabs", "buffers", "used", "loans", "leases", "abandoned")


def _of_others(remote: RemoteManager) -> dict[str, Any]:
    """Describe the other processes; on a master, also all processes and name owners.

    Call under the exchange's lock.
    """
    topology = remote.topology
    told: dict[str, Any] = {
        "role": topology.role.value,
        "links": [
            _link(remote, peer)
            for peer in topology.peers.values()
            if peer.session.link is not None
        ],
        "relays": [
            _relay(relay)
            for peer in topology.peers.values()
            for relay in peer.relays.values()
        ],
        "relay_counters": _counters(topology.counters),
    }
    if topology.is_master:
        machine, me = topology.key
        slaves = [each.key[1] for each in topology.slaves()]
        told["processes"] = [me, *slaves]
        told["users"] = {
            name: owner[1]
            for name, owner in remote.name_registry.users.owners().items()
            if owner[0] == machine
        }
    return told


def _link(remote: RemoteManager, peer: Peer) -> dict[str, Any]:
    link = remote.links.by_number.get(peer.session.link or 0)
    kind = LinkKind.DATA if link is None or link.kind is None else link.kind
    credentials = None if link is None else link.credentials
    return {
        "machine": peer.key[0],
        "process": peer.key[1],
        "kind": kind.value,
        "ready": peer.session.ready,
        "direct": credentials is None or credentials.is_direct,
        "counters": _counters(peer.counters),
        "unresponsive": peer.unresponsive,
    }


def _relay(relay: Relay) -> dict[str, Any]:
    address = relay.entry.address
    return {
        "name": address.module,
        "machine": address.machine,
        "process": relay.peer.key[1],
        "state": relay.state.value,
        "queue": relay.queued,
        "unacked": relay.under_way,
        "asked": len(relay.asked),
        "counters": _counters(relay.counters),
    }


def _counters(counters: RelayCounters) -> dict[str, int]:
    return {each: getattr(counters, each) for each in ("posted", *ENDS)}
