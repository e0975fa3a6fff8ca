"""Every exception of the bus, grouped by the party that can act on it.

::

    BusError
    the caller, at the call
    ├── NameTakenError                      choose another name
    ├── NotJoinedError                      join that bus first
    ├── UnknownTaskError                    the task is not, or no longer, registered
    ├── AlreadyAnsweredError                one answer per message and responder
    ├── PayloadError                        a message cannot carry this value
    ├── MessageTooLargeError (queuebroker.MessageTooLargeError)  above the limit
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
    ├── HorizonError                        horizons are not readable, or not stored
    no party, but it can be reported
    ├── WireError                           a peer violated the protocol
    the tools
    ├── JournalError                        a record of traffic cannot be read
    ├── PipelineError                       Spark cannot run here, or cannot write
    └── DemoError                           the demo cannot start, read or write

Wrong arguments raise plain `TypeError` and `ValueError`. The raising code passes data,
and the error builds its text from them, so the text is the same everywhere.

bus_error   the root, and how an error is pickled
caller      the errors of the caller, at the call
bounds      those that the caller avoids by waiting or by sending less
delivery    those of the addressee, or its absence
machines    those of the operator of the machines
wire        those of a peer that violates the protocol
tools       those of the tools
"""

from __future__ import annotations

from bus.errors.base import (
    AccessDeniedError,
    ArenaFullError,
    BusError,
    BusFullError,
    DemoError,
    DuplicateSenderError,
    HorizonError,
    JournalError,
    MachineNameConflictError,
    PipelineError,
    StaleLeaseError,
    VersionMismatchError,
    WireError,
    _restore,
)
from bus.errors.caller import (
    AlreadyAnsweredError,
    BusyError,
    MessageTooLargeError,
    NameTakenError,
    NotJoinedError,
    PayloadError,
    UnknownTaskError,
    WrongProcessError,
)
from bus.errors.delivery import (
    AddresseeGoneError,
    CommandTimeoutError,
    ExpiredError,
    HandOverError,
    InDoubtError,
    MovedError,
    PeerLostError,
    RemoteError,
    UnreachableError,
    UnresolvedError,
)

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
    "HorizonError",
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

# Tracebacks and pickles name an error by its public path, not by its file.
_restore.__module__ = __name__
for _name in __all__:
    globals()[_name].__module__ = __name__
