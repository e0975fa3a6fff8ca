"""Every exception of the bus, by who can act on it.

::

    BusError
    you, where you call
    ├── NameTakenError                      choose another name
    ├── NotJoinedError                      join that bus first
    ├── UnknownTaskError                    the task was deregistered, or never was
    ├── AlreadyAnsweredError                one answer a message and responder
    ├── PayloadError                        not what a message can carry
    ├── MessageTooLargeError                more than a message may carry
    ├── WrongProcessError                   open a bus of your own after a fork
    ├── BusyError                           somebody else uses it now
    you, by waiting or by sending less
    ├── BusFullError                        a bound is reached; nothing was sent
    ├── ArenaFullError                      no room in shared memory
    ├── StaleLeaseError                     what lay in shared memory is gone
    the addressee, or its absence
    ├── UnresolvedError                     nobody registered that name in time
    ├── UnreachableError                    it is known, and no link leads there
    ├── AddresseeGoneError                  it left before it took the message
    ├── PeerLostError                       its process was lost before it answered
    ├── InDoubtError                        its process was lost; it may have got it
    ├── ExpiredError                        the message's own time passed on the way
    ├── RemoteError                         it failed, and says so
    ├── CommandTimeoutError (TimeoutError)  it did not answer in the time you gave
    who runs the machines
    ├── AccessDeniedError                   the access list, or the system, forbids it
    ├── VersionMismatchError                no version of the protocol in common
    ├── MachineNameConflictError            two machines under one name
    ├── DuplicateSenderError                two processes under one identity
    nobody, but it can be reported
    ├── WireError                           a peer said what no correct peer says
    the tools
    ├── JournalError                        a record of traffic cannot be read
    ├── PipelineError                       Spark cannot run here, or not on that
    └── DemoError                           the demo cannot be run on what it was given

Wrong arguments are plain `TypeError` and `ValueError`. Whoever raises an error that
carries data gives the data; the error makes its text, the same everywhere.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

__all__ = [
    "AccessDeniedError",
    "AddresseeGoneError",
    "AlreadyAnsweredError",
    "ArenaFullError",
    "BusError",
    "BusFullError",
    "BusyError",
    "CommandTimeoutError",
    "DemoError",
    "DuplicateSenderError",
    "ExpiredError",
    "InDoubtError",
    "JournalError",
    "MachineNameConflictError",
    "MessageTooLargeError",
    "NameTakenError",
    "NotJoinedError",
    "PayloadError",
    "PeerLostError",
    "PipelineError",
    "RemoteError",
    "StaleLeaseError",
    "UnknownTaskError",
    "UnreachableError",
    "UnresolvedError",
    "VersionMismatchError",
    "WireError",
    "WrongProcessError",
]

Error = TypeVar("Error", bound="BusError")


class BusError(Exception):
    """Root of every exception this package defines."""

    # Python's own way calls the class with `args`, the text, where ours want the data.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    """Make an error again that was pickled or copied, notes included."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


# You, where you call.


class NameTakenError(BusError):
    """The name is registered already: public on this bus, or private in this process.

    Not raised for the same name on another machine or another bus (BUS-NAME-7).

    name: the one that is taken.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cannot register a task: its name is taken: {name!r}; choose another "
            f"name, or deregister the task that has it"
        )
        self.name: str = name


class NotJoinedError(BusError):
    """A bus was named that this process has not joined (BUS-NAME-5).

    bus: its name.
    """

    def __init__(self, bus: str) -> None:
        super().__init__(
            f"cannot use a bus: this process has not joined it: {bus!r}; "
            f"join it with open_bus({bus!r}), or leave the bus out of the address"
        )
        self.bus: str = bus


class UnknownTaskError(BusError):
    """The task was deregistered, or its bus closed, or it was never registered.

    About the task that you act as. Not raised for an addressee that nobody knows: that
    is `UnresolvedError`, and only time can tell.

    name: the name it is, or was, registered by; "" for any.
    ended: what has ended that tasks belong to, such as "bus 'b' is closed".
    """

    def __init__(self, name: str, ended: str = "") -> None:
        super().__init__(
            f"cannot use a task: {ended or f'it is not registered: {name!r}'}"
        )
        self.name: str = name
        self.ended: str = ended


class AlreadyAnsweredError(BusError):
    """This task has answered that message before (BUS-MSG-7).

    Not raised for an answer that comes too late, nor for one that nobody waits for:
    both are dropped and counted.

    name: the task that would answer twice.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cannot respond: the message was answered before: by {name!r}; "
            f"if the callback calls respond itself, let it return NOREPLY"
        )
        self.name: str = name


class PayloadError(BusError):
    """Something in a payload is not what a message can carry (BUS-MSG-16).

    Raised where it is sent, before anything is; never at the receiver.

    path: where it is, such as ``payload[2]['x']``.
    fact: what is wrong with it.
    """

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"cannot send {path}: {fact}")
        self.path: str = path
        self.fact: str = fact


class MessageTooLargeError(BusError):
    """The payload, encoded, is longer than a message of this bus may be (BUS-MSG-16).

    Or, told afterwards, longer than the process of its addressee takes. Not raised for
    a payload of exactly the limit; headers do not count.

    got, limit: in bytes.
    """

    def __init__(self, got: int, limit: int) -> None:
        super().__init__(
            f"cannot send: payload is above {limit} bytes: {got}; send it in parts, or "
            f"raise BusConfig(message_bytes_max=...) in all processes of the bus"
        )
        self.got: int = got
        self.limit: int = limit


class WrongProcessError(BusError):
    """A bus was used in a child of the process that opened it (BUS-INIT-16).

    The child opens its own; the parent's is unharmed.

    opened_in, used_in: ids of the two processes.
    """

    def __init__(self, opened_in: int, used_in: int) -> None:
        super().__init__(
            f"cannot use a bus in process {used_in}: "
            f"it was opened in another: {opened_in}; call open_bus in this one"
        )
        self.opened_in: int = opened_in
        self.used_in: int = used_in


class BusyError(BusError):
    """It has an owner for the time being, such as the device that forwards its traffic.

    what: what cannot be used now.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"in use already: {what}")
        self.what: str = what


# You, by waiting or by sending less.


class BusFullError(BusError):
    """Something bounded has no room left; the message was not sent (BUS-FLOW-1, 2).

    Under the policy ``block`` it comes after `BusConfig.send_timeout_s`, and at once to
    a cooperative task, which must not wait. Not raised for notifications whose
    subscribers drop what they cannot take.

    what: what is full, such as ``task 'f'``.
    limit, unit: its bound, in "messages", "bytes" or what else it is counted in.
    """

    def __init__(self, what: str, limit: int, unit: str = "messages") -> None:
        super().__init__(f"cannot send: {what} is full: {limit} {unit}")
        self.what: str = what
        self.limit: int = limit
        self.unit: str = unit


class ArenaFullError(BusError):
    """The shared memory has no room for a message, and waiting was not allowed.

    Not raised under the policies that wait, drop, or send it by the ordinary link.

    needed, limit: bytes of the message, bytes of the arena.
    """

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(
            f"cannot send {needed} bytes: the arena is full: {limit} bytes"
        )
        self.needed: int = needed
        self.limit: int = limit


class StaleLeaseError(BusError):
    """What the lease was for has been given back, and its memory may hold other bytes.

    lease: its number, never used twice.
    """

    def __init__(self, lease: int) -> None:
        super().__init__(f"cannot read a message: its lease has ended: {lease}")
        self.lease: int = lease


# The addressee, or its absence.


class UnresolvedError(BusError):
    """Nobody registered the name, as public, while the message waited (BUS-ROUTE-19).

    It was delivered to nobody. Not a timeout of the command: that one has an addressee
    that does not answer (`CommandTimeoutError`).

    name: the addressee, as it was written.
    waited_s: how long the message waited, in seconds.
    elsewhere: whether the name belongs to another machine.
    """

    def __init__(self, name: str, waited_s: float, *, elsewhere: bool = False) -> None:
        fact = _ELSEWHERE if elsewhere else ""
        super().__init__(
            f"cannot deliver to {name!r}: nobody has that name: "
            f"waited for {round(waited_s, 3):g} s{fact}"
        )
        self.name: str = name
        self.waited_s: float = waited_s
        self.elsewhere: bool = elsewhere


_ELSEWHERE = (
    "; that address is on another machine, and open_bus joins the processes of one "
    "machine only: it has no network"
)


class UnreachableError(BusError):
    """The addressee was found, and no link to its process can be made.

    Or none that an answer could come by: who asks, or answers, somebody of another
    process is on the same bus as that (BUS-NAME-5).

    name: the addressee.
    fact: what failed.
    """

    def __init__(self, name: str, fact: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: no link leads there: {fact}")
        self.name: str = name
        self.fact: str = fact

    @classmethod
    def across(cls, name: str, bus: object, other: object) -> Self:
        """Return the error for who is on ``bus`` while the caller is on ``other``."""
        return cls(name, f"it is on bus {str(bus)!r}, and who speaks on {str(other)!r}")


class AddresseeGoneError(BusError):
    """The addressee left for good, the message still unread (BUS-DEREG-8).

    Not raised when it merely deregistered: then the message waits for the next task of
    that name.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: the addressee is gone for good")
        self.name: str = name


class PeerLostError(BusError):
    """The addressee had taken the command, and its process was lost (BUS-DEREG-9).

    The command may have had its effect, all of it or a part. Where it is not even known
    whether the addressee took it, `InDoubtError` comes instead.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no answer from {name!r}: its process was lost after it took the command"
        )
        self.name: str = name


class InDoubtError(BusError):
    """The message was on its way when the addressee's process was lost (BUS-MOVE-8).

    It was delivered once or not at all, nobody knows which, and it is never sent again.
    Not raised for the loss of a link to a process that lives: its stream goes on.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"in doubt about a message to {name!r}: "
            "its process was lost before it acknowledged"
        )
        self.name: str = name


class ExpiredError(BusError):
    """The message's time passed while it was on its way to a known addressee (AMO-23).

    It was given up and is never sent again. Not raised while the name is still sought:
    that is `UnresolvedError`.

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: the message's time has passed")
        self.name: str = name


class RemoteError(BusError):
    """The addressee answered that it failed, or its callback raised (BUS-MSG-13).

    name: the addressee.
    text: what it says, at most 16 KiB; an exception's type and text where one was
      raised.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name!r} failed: {text}")
        self.name: str = name
        self.text: str = text


class CommandTimeoutError(BusError, TimeoutError):
    """No answer came in the time that the caller gave (BUS-FLOW-5).

    The command may have been carried out, or may yet be; a late answer is dropped.

    name: the addressee.
    timeout_s: how long the caller waited, in seconds.
    why: the cause and its remedy, if the addressee is in this process and the cause is
      visible; else empty.
    """

    def __init__(self, name: str, timeout_s: float, why: str = "") -> None:
        waited = f"no answer from {name!r}: waited for {round(timeout_s, 3):g} s"
        super().__init__(f"{waited}: {why}" if why else waited)
        self.name: str = name
        self.timeout_s: float = timeout_s
        self.why: str = why


# Who runs the machines.


class AccessDeniedError(BusError):
    """The access list, or the system's own permissions, forbid it (BUS-INIT-5).

    act: what was asked for, such as ``join bus 'bus1'``.
    fact: why not, as far as the other side tells.
    """

    def __init__(self, act: str, fact: str) -> None:
        super().__init__(f"cannot {act}: access is denied: {fact}")
        self.act: str = act
        self.fact: str = fact


class VersionMismatchError(BusError):
    """Two processes have no version of the protocol in common (BUS-WIRE-3).

    ours, theirs: lowest and highest version each speaks.
    """

    def __init__(self, ours: tuple[int, int], theirs: tuple[int, int]) -> None:
        super().__init__(
            f"cannot join: no version in common: ours {ours[0]} to {ours[1]}, "
            f"theirs {theirs[0]} to {theirs[1]}"
        )
        self.ours: tuple[int, int] = ours
        self.theirs: tuple[int, int] = theirs


class MachineNameConflictError(BusError):
    """Two machines have one name; the one that was known first keeps it (BUS-DISC-8).

    machine: the name.
    """

    def __init__(self, machine: str) -> None:
        super().__init__(f"cannot add a machine: another one has its name: {machine!r}")
        self.machine: str = machine


class DuplicateSenderError(BusError):
    """Two living processes claim one identity; the later one is refused (AMO-18).

    sender: the identity.
    """

    def __init__(self, sender: str) -> None:
        super().__init__(f"cannot open a stream: another process sends as: {sender!r}")
        self.sender: str = sender


# Nobody, but it can be reported.


class WireError(BusError):
    """A peer said what no correct peer says; the text names it. Nothing was changed."""


# The tools.


class JournalError(BusError):
    """A folder holds no journal that can be read, or a file of one cannot be.

    Not raised for a journal that is merely incomplete: that is a verdict (J1).
    """


class PipelineError(BusError):
    """Spark cannot run here, or has nowhere to write; one line says what to do."""


class DemoError(BusError):
    """The demo has nothing to read or nowhere to write; the text says which."""
