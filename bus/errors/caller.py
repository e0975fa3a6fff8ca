"""The errors that the caller corrects at the call: names, payloads, its own state."""

from __future__ import annotations

import queuebroker.errors
from bus.errors.base import BusError

__all__ = [
    "AlreadyAnsweredError",
    "BusyError",
    "MessageTooLargeError",
    "NameTakenError",
    "NotJoinedError",
    "PayloadError",
    "UnknownTaskError",
    "WrongProcessError",
]


class NameTakenError(BusError):
    """The name is already registered: public on this bus, or private in this process.

    Not raised for the same name on another machine or another bus (BUS-NAME-7).

    name: the name that is taken.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cannot register a task: its name is taken: {name!r}; choose another "
            f"name, or deregister the task that has it"
        )
        self.name: str = name


class NotJoinedError(BusError):
    """The caller names a bus that this process has not joined (BUS-NAME-5).

    bus: the name of that bus.
    """

    def __init__(self, bus: str) -> None:
        super().__init__(
            f"cannot use a bus: this process has not joined it: {bus!r}; "
            f"join it with open_bus({bus!r}), or leave the bus out of the address"
        )
        self.bus: str = bus


class UnknownTaskError(BusError):
    """The task was deregistered, or its bus closed, or it was never registered.

    Concerns the task that the caller acts as. Not raised for an addressee that no
    process knows: that is `UnresolvedError`, which only a timeout can establish.

    name: the name under which it is or was registered; "" for any.
    ended: the ended owner of the task, such as "bus 'b' is closed".
    """

    def __init__(self, name: str, ended: str = "") -> None:
        fact = ended or f"it is not registered: {name!r}"
        remedy = "make a new one" if ended else "register it"
        super().__init__(f"cannot use a task: {fact}; {remedy}")
        self.name: str = name
        self.ended: str = ended


class AlreadyAnsweredError(BusError):
    """This task has already answered that message (BUS-MSG-7).

    Not raised for an answer that arrives too late, nor for one that no task waits for:
    both are dropped and counted.

    name: the task that tried to answer twice.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cannot respond: it was already answered by {name!r}; "
            f"if the callback calls respond itself, let it return NOREPLY"
        )
        self.name: str = name


class PayloadError(BusError):
    """A payload contains a value that a message cannot carry (BUS-MSG-16).

    Raised at the sender, before anything is sent; never at the receiver. So it is no
    `queuebroker.PayloadError`, which is raised at the receiver, for a message that is
    not of the type of its queue.

    path: the position of the value, such as ``payload[2]['x']``.
    fact: the defect of the value.
    """

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"cannot send {path}: {fact}")
        self.path: str = path
        self.fact: str = fact


class MessageTooLargeError(BusError, queuebroker.errors.MessageTooLargeError):
    """The encoded payload exceeds the limit of this bus (BUS-MSG-16).

    A caller that uses channels, too, handles both by the error of `queuebroker`.

    Also reported after sending, if it exceeds the limit of the addressee's process, or
    if that process has no memory for it (BUS-MSG-20): then it was not delivered. Not
    raised for a payload of exactly the limit; headers do not count.

    got, limit: in bytes.
    why: the reason, if it is another than the limit.
    """

    def __init__(self, got: int, limit: int, why: str = "") -> None:
        super().__init__(
            f"cannot deliver a payload of {got} bytes: {why}; send it in parts, or "
            "again later"
            if why
            else f"cannot send: payload is above {limit} bytes: {got}; send it in "
            "parts, or raise BusConfig(message_bytes_max=...) in all processes of the "
            "bus"
        )
        self.got: int = got
        self.limit: int = limit


class WrongProcessError(BusError):
    """A bus was used in a child of the process that opened it (BUS-INIT-16).

    The child must open its own bus; the parent's is unaffected.

    opened_in, used_in: ids of the two processes.
    """

    def __init__(self, opened_in: int, used_in: int) -> None:
        super().__init__(
            f"cannot use a bus in process {used_in}: "
            f"it was opened in process {opened_in}; call open_bus in this one"
        )
        self.opened_in: int = opened_in
        self.used_in: int = used_in


class BusyError(BusError):
    """The object currently has an owner, such as a device that forwards its traffic.

    what: the object in use.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"already in use: {what}")
        self.what: str = what
