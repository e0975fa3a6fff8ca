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

bus.testing      a whole bus inside one test
bus.pattern      sockets without names, which nanomsg and NNG speak too
bus.multicast    one message to many recipients, with one copy of its bytes
bus.journal      recordings of traffic, and their checker

In a shell, ``bus --help`` lists the commands, and ``bus demo`` shows a bus at work. The
layout of the source is in docs/explanation/layout.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.access import AccessList, Grant
    from bus.address import Address
    from bus.api.bus import Bus
    from bus.api.bus_thread import BusThread
    from bus.api.command_handle import CommandHandle
    from bus.api.membership import open_bus
    from bus.api.subscription import Subscription, Watch
    from bus.api.task import Task, Where
    from bus.config import BusConfig
    from bus.durability import Durability
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
    from bus.loan import Loan
    from bus.message import (
        NOREPLY,
        Incoming,
        Kind,
        NoReply,
        Presence,
        Response,
        Undelivered,
    )
    from bus.network import DiscoveryScope, Network
    from bus.payload import Payload
    from bus.registration import Visibility
    from bus.role import Role
    from bus.service import Service
    from bus.snapshot import (
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
        ThreadInfo,
    )
    from bus.specification import Specification
    from bus.threads.account import Overflow

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
    "access": ("AccessList", "Grant"),
    "address": ("Address",),
    "api.bus": ("Bus",),
    "api.command_handle": ("CommandHandle",),
    "api.bus_thread": ("BusThread",),
    "api.membership": ("open_bus",),
    "api.subscription": ("Subscription", "Watch"),
    "api.task": ("Task", "Where"),
    "config": ("BusConfig",),
    "durability": ("Durability",),
    "registration": ("Visibility",),
    "specification": ("Specification",),
    "message": (
        "NOREPLY",
        "Incoming",
        "Kind",
        "NoReply",
        "Presence",
        "Response",
        "Undelivered",
    ),
    "loan": ("Loan",),
    "payload": ("Payload",),
    "network": ("DiscoveryScope", "Network"),
    "role": ("Role",),
    "service": ("Service",),
    "snapshot": (
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
        "ThreadInfo",
        "SentCounters",
    ),
    "threads.account": ("Overflow",),
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
