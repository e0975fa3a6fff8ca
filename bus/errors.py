"""Every exception of the bus, grouped by the party that can act on it.

::

    BusError
    the caller, at the call
    ├── NameTakenError                      choose another name
    ├── NotJoinedError                      join that bus first
    ├── UnknownTaskError                    the task is not, or no longer, registered
    ├── AlreadyAnsweredError                one answer per message and responder
    ├── PayloadError                        a message cannot carry this value
    ├── MessageTooLargeError                the payload exceeds the limit
    ├── WrongProcessError                   open a new bus after a fork
    ├── BusyError                           the object has another owner now
    the caller, by waiting or by sending less
    ├── BusFullError                        a bound is reached; nothing was sent
    ├── ArenaFullError                      no room in shared memory
    ├── StaleLeaseError                     the shared memory was released
    the addressee, or its absence
    ├── UnresolvedError                     no task registered that name in time
    ├── UnreachableError                    the task is known, but not reachable
    ├── AddresseeGoneError                  it left before it took the message
    ├── MovedError                          it has moved to another machine
    ├── PeerLostError                       its process was lost before it answered
    ├── InDoubtError                        its process was lost; delivery is unknown
    ├── ExpiredError                        the message's deadline passed on the way
    ├── RemoteError                         it reports that it failed
    ├── CommandTimeoutError (TimeoutError)  it did not answer within the timeout
    ├── HandOverError                       no process has taken over the task
    the operator of the machines
    ├── AccessDeniedError                   the access list, or the system, forbids it
    ├── VersionMismatchError                no protocol version in common
    ├── MachineNameConflictError            two machines with one name
    ├── DuplicateSenderError                two processes with one identity
    no party, but it can be reported
    ├── WireError                           a peer violated the protocol
    the tools
    ├── JournalError                        a record of traffic cannot be read
    ├── PipelineError                       Spark cannot run here, or cannot write
    └── DemoError                           the demo cannot start, read or write

Wrong arguments raise plain `TypeError` and `ValueError`. The raising code passes data,
and the error builds its text from them, so the text is the same everywhere.
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
    "HandOverError",
    "InDoubtError",
    "JournalError",
    "MachineNameConflictError",
    "MessageTooLargeError",
    "MovedError",
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

    # `Exception.__reduce__` would call the class with `args`, which is the text; these
    # constructors take the data.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    """Rebuild an error that was pickled or copied, notes included."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


# The caller, at the call.


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
        super().__init__(
            f"cannot use a task: {ended or f'it is not registered: {name!r}'}"
        )
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

    Raised at the sender, before anything is sent; never at the receiver.

    path: the position of the value, such as ``payload[2]['x']``.
    fact: the defect of the value.
    """

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"cannot send {path}: {fact}")
        self.path: str = path
        self.fact: str = fact


class MessageTooLargeError(BusError):
    """The encoded payload exceeds the limit of this bus (BUS-MSG-16).

    Also reported after sending, if it exceeds the limit of the addressee's process. Not
    raised for a payload of exactly the limit; headers do not count.

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


# The caller, by waiting or by sending less.


class BusFullError(BusError):
    """A bounded buffer has no room left; the message was not sent (BUS-FLOW-1, 2).

    Under the policy ``block`` it is raised after `BusConfig.send_timeout_s`, but
    immediately for a cooperative task, which must not wait. Not raised for
    notifications whose subscribers drop the excess.

    what: the full buffer, such as ``task 'f'``.
    limit, unit: its bound, and the unit: "messages", "bytes" or another.
    """

    def __init__(self, what: str, limit: int, unit: str = "messages") -> None:
        super().__init__(f"cannot send: {what} is full: {limit} {unit}")
        self.what: str = what
        self.limit: int = limit
        self.unit: str = unit


class ArenaFullError(BusError):
    """The shared memory has no room for a message, and the sender may not wait.

    Not raised under the policies that wait, drop, or send it over the ordinary link.

    needed, limit: bytes of the message, bytes of the arena.
    """

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(
            f"cannot send {needed} bytes: the arena is full: {limit} bytes"
        )
        self.needed: int = needed
        self.limit: int = limit


class StaleLeaseError(BusError):
    """The leased memory was released, and may now hold other bytes.

    lease: the number of the lease; numbers are never reused.
    """

    def __init__(self, lease: int) -> None:
        super().__init__(f"cannot read a message: its lease has ended: {lease}")
        self.lease: int = lease


# The addressee, or its absence.


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


class UnresolvedError(BusError):
    """No task registered the name, as public, while the message waited (BUS-ROUTE-19).

    The message was not delivered. Not a timeout of the command: that is for an
    addressee that exists and does not answer (`CommandTimeoutError`).

    name: the addressee, as it was written.
    waited_s: how long the message waited, in seconds.
    elsewhere: True if the name belongs to another machine.
    """

    def __init__(self, name: str, waited_s: float, *, elsewhere: bool = False) -> None:
        fact = _ELSEWHERE if elsewhere else ""
        super().__init__(
            f"cannot deliver to {name!r}: no task has that name: "
            f"waited for {round(waited_s, 3):g} s{fact}"
        )
        self.name: str = name
        self.waited_s: float = waited_s
        self.elsewhere: bool = elsewhere


_ELSEWHERE = (
    "; that address is on another machine, which is reached only if both have opened "
    "the bus with a network"
)


class UnreachableError(BusError):
    """The addressee was found, but no link to its process can be made.

    Or no link can carry an answer: the tasks that ask and answer across processes must
    be on the same bus (BUS-NAME-5).

    name: the addressee.
    fact: the operation that failed.
    """

    def __init__(self, name: str, fact: str) -> None:
        super().__init__(f"cannot deliver to {name!r}: no link to its process: {fact}")
        self.name: str = name
        self.fact: str = fact

    @classmethod
    def across(cls, name: str, bus: object, other: object) -> Self:
        """Return the error for an addressee on ``bus`` and a caller on ``other``."""
        return cls(name, f"it is on bus {str(bus)!r}, the caller on {str(other)!r}")


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

    The message was not delivered. With `BusConfig.follow_moves` the process of the
    sender sends it to the new address instead.

    name: the addressee, as it was written.
    address: its new address.
    """

    def __init__(self, name: str, address: str) -> None:
        super().__init__(
            f"cannot deliver to {name!r}: the task has moved to {address!r}: "
            "send there, or set BusConfig.follow_moves"
        )
        self.name: str = name
        self.address: str = address


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

    name: the addressee.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cannot tell whether {name!r} received a message: "
            "its process was lost before it acknowledged it"
        )
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
    missing: ``answer from``, or ``command for`` if the task waited to receive one.
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


# The operator of the machines.


class AccessDeniedError(BusError):
    """The access list, or the system's permissions, forbid the operation (BUS-INIT-5).

    act: the requested operation, such as ``join bus 'bus1'``.
    fact: the reason, as far as the other side reports it.
    """

    def __init__(self, act: str, fact: str) -> None:
        super().__init__(f"cannot {act}: access is denied: {fact}")
        self.act: str = act
        self.fact: str = fact


class VersionMismatchError(BusError):
    """Two processes have no version of the protocol in common (BUS-WIRE-3).

    ours, theirs: lowest and highest version that each supports.
    """

    def __init__(self, ours: tuple[int, int], theirs: tuple[int, int]) -> None:
        super().__init__(
            f"cannot join: no version in common: ours {ours[0]} to {ours[1]}, "
            f"theirs {theirs[0]} to {theirs[1]}"
        )
        self.ours: tuple[int, int] = ours
        self.theirs: tuple[int, int] = theirs


class MachineNameConflictError(BusError):
    """Two machines have one name; the machine known first keeps it (BUS-DISC-8).

    machine: the name.
    """

    def __init__(self, machine: str) -> None:
        super().__init__(f"cannot add a machine: another one has the name {machine!r}")
        self.machine: str = machine


class DuplicateSenderError(BusError):
    """Two living processes claim one identity; the later one is rejected (AMO-18).

    sender: the identity.
    """

    def __init__(self, sender: str) -> None:
        super().__init__(f"cannot open a stream: another process sends as: {sender!r}")
        self.sender: str = sender


# No party, but it can be reported.


class WireError(BusError):
    """A peer violated the protocol; the text names the violation. No state changed."""


# The tools.


class JournalError(BusError):
    """A folder holds no readable journal, or a file of one is unreadable.

    Not raised for a journal that is merely incomplete: that is a verdict (J1).
    """


class PipelineError(BusError):
    """Spark cannot run here, or cannot write its output; one line names the remedy."""


class DemoError(BusError):
    """The demo cannot start, read its input or write; the text gives the reason."""
