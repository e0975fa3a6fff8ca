"""The software bus: tasks with names exchange commands, answers and notifications.

::

    from bus import open_bus

    with open_bus("house") as bus:

        @bus.task("thermostat")
        def decide(message):
            return {"heat": message.payload["celsius"] < 18}

        print(bus.call("thermostat", {"celsius": 17}))  # {'heat': True}

A second program that opens the bus ``house`` calls the same task without a change.
`open_bus` returns a `Bus`, which registers tasks; a `Task` sends commands and
notifications, and subscribes to those of others. `BusConfig` has the settings, and
`BusError` is the root of the errors.

bus.aio          the same for coroutines
bus.testing      a whole bus inside one test
bus.pattern      sockets without names, which nanomsg and NNG speak too
bus.features.memory    one message to many recipients, with one copy of its bytes
bus.journal      recordings of traffic, and their checker

In a shell, ``bus --help`` lists the commands, and ``bus demo`` shows a bus at work. The
layout of the source is in docs/explanation/layout.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.api.bus_thread import BusThread
    from bus.api.membership import open_bus
    from bus.api.sender import CommandHandle
    from bus.api.service import Service
    from bus.api.task import Task, Where
    from bus.errors import (
        AccessDeniedError,
        AddresseeGoneError,
        AlreadyAnsweredError,
        ArenaFullError,
        BusError,
        BusFullError,
        BusyError,
        CommandTimeoutError,
        DuplicateSenderError,
        ExpiredError,
        HandOverError,
        HorizonError,
        InDoubtError,
        MachineNameConflictError,
        MessageTooLargeError,
        MovedError,
        NameTakenError,
        NotJoinedError,
        PayloadError,
        PeerLostError,
        RemoteError,
        StaleLeaseError,
        UnknownTaskError,
        UnreachableError,
        UnresolvedError,
        VersionMismatchError,
        WireError,
        WrongProcessError,
    )
    from bus.features.durable.api import Durability
    from bus.features.machines.network import DiscoveryScope, Network
    from bus.features.subscriptions.api import Subscription, Watch
    from bus.model.address import Address
    from bus.model.config import BusConfig
    from bus.model.loan import Loan
    from bus.model.message import (
        NOREPLY,
        Incoming,
        Kind,
        NoReply,
        Presence,
        Response,
        Undelivered,
    )
    from bus.model.payload import Payload
    from bus.model.registration import Role, Visibility
    from bus.model.rights import AccessList, Grant
    from bus.model.snapshot import (
        ArenaRecipientInfo,
        BusSnapshot,
        Counters,
        LentViewsInfo,
        LongMessageCounters,
        MachineInfo,
        MachineState,
        PeerInfo,
        RelayInfo,
        SentCounters,
        SharedMemoryInfo,
        SlabInfo,
        SubscriptionInfo,
        TaskInfo,
        TaskTotals,
        ThreadInfo,
    )
    from bus.model.specification import Specification
    from bus.process.account import Overflow

__all__ = [  # noqa: RUF022 # grouped by module
    # access
    "AccessList",
    "Grant",
    # address
    "Address",
    # api
    "Bus",
    "open_bus",
    "BusThread",
    "Subscription",
    "Watch",
    "CommandHandle",
    "Task",
    "Where",
    # config
    "BusConfig",
    # durability
    "Durability",
    # core
    "Visibility",
    "Specification",
    # errors
    "AccessDeniedError",
    "AddresseeGoneError",
    "AlreadyAnsweredError",
    "ArenaFullError",
    "BusError",
    "BusFullError",
    "BusyError",
    "CommandTimeoutError",
    "DuplicateSenderError",
    "ExpiredError",
    "HandOverError",
    "HorizonError",
    "InDoubtError",
    "MachineNameConflictError",
    "MessageTooLargeError",
    "MovedError",
    "NameTakenError",
    "NotJoinedError",
    "PayloadError",
    "PeerLostError",
    "RemoteError",
    "StaleLeaseError",
    "UnknownTaskError",
    "UnreachableError",
    "UnresolvedError",
    "VersionMismatchError",
    "WireError",
    "WrongProcessError",
    # message
    "NOREPLY",
    "Incoming",
    "Kind",
    "NoReply",
    "Presence",
    "Response",
    "Undelivered",
    # payload
    "Loan",
    "Payload",
    # snapshot
    "MachineInfo",
    "MachineState",
    "SharedMemoryInfo",
    "SlabInfo",
    "ArenaRecipientInfo",
    "LongMessageCounters",
    "LentViewsInfo",
    "Counters",
    "BusSnapshot",
    "PeerInfo",
    "RelayInfo",
    "SubscriptionInfo",
    "TaskInfo",
    "TaskTotals",
    "ThreadInfo",
    "SentCounters",
    # network
    "DiscoveryScope",
    "Network",
    # role
    "Role",
    # service
    "Service",
    # threads
    "Overflow",
]

# The module of each name; a name not listed here is one of the errors.
_HOMES: Final = {
    "model.rights": (
        "AccessList",
        "Grant",
    ),
    "model.address": ("Address",),
    "api.bus": ("Bus",),
    "api.sender": ("CommandHandle",),
    "api.bus_thread": ("BusThread",),
    "api.membership": ("open_bus",),
    "features.subscriptions.api": (
        "Subscription",
        "Watch",
    ),
    "api.task": (
        "Task",
        "Where",
    ),
    "model.config": ("BusConfig",),
    "features.durable.api": ("Durability",),
    "model.registration": (
        "Visibility",
        "Role",
    ),
    "model.specification": ("Specification",),
    "model.message": (
        "NOREPLY",
        "Incoming",
        "Kind",
        "NoReply",
        "Presence",
        "Response",
        "Undelivered",
    ),
    "model.loan": ("Loan",),
    "model.payload": ("Payload",),
    "features.machines.network": (
        "DiscoveryScope",
        "Network",
    ),
    "api.service": ("Service",),
    "model.snapshot": (
        "MachineInfo",
        "MachineState",
        "SharedMemoryInfo",
        "SlabInfo",
        "ArenaRecipientInfo",
        "LongMessageCounters",
        "LentViewsInfo",
        "Counters",
        "BusSnapshot",
        "PeerInfo",
        "RelayInfo",
        "SubscriptionInfo",
        "TaskInfo",
        "TaskTotals",
        "ThreadInfo",
        "SentCounters",
    ),
    "process.account": ("Overflow",),
}
_HOME_OF: Final = dict.fromkeys(__all__, "errors") | {
    name: home for home, names in _HOMES.items() for name in names
}


# Every part is loaded on first use: `bus.journal` must load with the standard library,
# attrs and `queuebroker` alone.
def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    except Exception as error:
        from bus.requirements import explain  # noqa: PLC0415 - where it went wrong only

        explain(error)
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
