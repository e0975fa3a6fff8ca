"""The errors of delivery: the addressee is absent, has failed or does not answer."""

from __future__ import annotations

from typing import Any

from bus.errors.base import BusError

__all__ = [
    "AddresseeGoneError",
    "CommandTimeoutError",
    "ExpiredError",
    "HandOverError",
    "InDoubtError",
    "MovedError",
    "PeerLostError",
    "RemoteError",
    "UnreachableError",
    "UnresolvedError",
]

_ELSEWHERE = (
    "; it is on another machine: check the name there, and that both machines have "
    "opened the bus with a network"
)

_NOWHERE = (
    "; neither this machine nor any that it is linked with has it: 'bus machines' "
    "shows the linked ones"
)
_HERE = "; check the name, or start the program that registers it"
_ANYWHERE = "ism://*/"  # the beginning of `bus.model.address.name_anywhere`


class UnresolvedError(BusError):
    """No task registered the name, as public, while the message waited (BUS-ROUTE-19).

    The message was not delivered. Not a timeout of the command: that is for an
    addressee that exists and does not answer (`CommandTimeoutError`).

    name: the addressee, as it was written.
    waited_s: how long the message waited, in seconds.
    elsewhere: True if the name belongs to another machine, or may do so.
    """

    def __init__(self, name: str, waited_s: float, *, elsewhere: bool = False) -> None:
        fact = _ELSEWHERE if elsewhere else _HERE
        if name.startswith(_ANYWHERE):
            fact = _NOWHERE
        super().__init__(
            f"cannot deliver to {name!r}: no task has that name: "
            f"waited for {round(waited_s, 3):g} s{fact}"
        )
        self.name: str = name
        self.waited_s: float = waited_s
        self.elsewhere: bool = elsewhere


class UnreachableError(BusError):
    """The addressee was found, but no link to its process can be made.

    name: the addressee.
    fact: the operation that failed.
    """

    def __init__(self, name: str, fact: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: no link to its process: {fact}")
        self.name: str = name
        self.fact: str = fact


class AddresseeGoneError(BusError):
    """The addressee left for good before it read the message (BUS-DEREG-8).

    Not raised if it merely deregistered: then the message waits for the next task of
    that name.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: the addressee has left for good")
        self.name: str = name


class MovedError(BusError):
    """The addressee has moved to another machine (BUS-MOVE-9).

    The message was not delivered. With `BusConfig.follow_moved_tasks` the process of
    the sender sends it to the new address instead.

    name: the addressee, as it was written.
    address: its new address.
    bus: the name of the bus of both; "" if it is not known.
    """

    def __init__(self, name: str, address: str, bus: str = "") -> None:
        super().__init__(
            f"cannot deliver to {name!r}: the task has moved to {address!r}: "
            "send there, or set BusConfig.follow_moved_tasks"
        )
        self.name: str = name
        self.address: str = address
        self.bus: str = bus


class PeerLostError(BusError):
    """The addressee had taken the command, and its process was lost (BUS-DEREG-9).

    The command may have had all of its effect, or a part. If even the taking is
    uncertain, `InDoubtError` is raised instead.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no answer from {name!r}: its process was lost after it took the command"
        )
        self.name: str = name


class InDoubtError(BusError):
    """The message was on its way when the addressee's process was lost (BUS-MOVE-8).

    It was delivered once or not at all; which of the two is unknown. It is never
    resent. Not raised if a link to a living process is lost: its stream continues.
    Raised also if an interrupt ended the call that passed a message on to the task of
    a name of any machine (BUS-NAME-8).

    name: the addressee.
    """

    def __init__(
        self, name: str, why: str = "its process was lost before it acknowledged it"
    ) -> None:
        super().__init__(f"cannot tell whether {name!r} received a message: {why}")
        self.name: str = name


class ExpiredError(BusError):
    """The message's deadline passed on the way to a known addressee (AMO-23).

    It was dropped and is never resent. Not raised while the name is still being
    resolved: that is `UnresolvedError`.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: the message has expired")
        self.name: str = name


class RemoteError(BusError):
    """The addressee answered that it failed, or its callback raised (BUS-MSG-13).

    name: the addressee.
    text: its error text, at most 16 KiB; the type and text of the exception if one was
      raised.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name!r} failed: {text}")
        self.name: str = name
        self.text: str = text


class CommandTimeoutError(BusError, TimeoutError):
    """No answer, or no command, arrived within the caller's timeout (BUS-FLOW-5).

    A command that was sent may have been carried out, or may still be; a late answer is
    dropped.

    name: the addressee of the command.
    timeout_s: how long the caller waited, in seconds.
    why: the cause and its remedy, if the addressee is in this process and the cause is
      visible; else empty.
    missing: ``answer from``, or the like: ``command for`` in `Task.receive`.
    """

    def __init__(
        self,
        name: str,
        timeout_s: float,
        why: str = "",
        *,
        missing: str = "answer from",
    ) -> None:
        waited = f"no {missing} {name!r}: waited for {round(timeout_s, 3):g} s"
        super().__init__(f"{waited}: {why}" if why else waited)
        self.name: str = name
        self.timeout_s: float = timeout_s
        self.why: str = why


class HandOverError(BusError):
    """A task was deregistered for a hand-over that failed (BUS-MOVE-10).

    Register a task with the state again, here or in another process. Its unread
    commands wait for it.

    name: the name of the task. to: the address of the process that was to take it.
    why: the reason.
    state: the state that the task returned.
    in_doubt: True if there may be a successor nevertheless.
    """

    def __init__(
        self, name: str, to: str, why: str, state: Any, *, in_doubt: bool = False
    ) -> None:
        check = f"unless {name!r} has a successor nevertheless, " if in_doubt else ""
        super().__init__(
            f"cannot hand over task {name!r} to {to!r}: {why}; it is deregistered: "
            f"{check}register it again with the `state` of this error"
        )
        self.name: str = name
        self.to: str = to
        self.why: str = why
        self.state: Any = state
        self.in_doubt: bool = in_doubt
