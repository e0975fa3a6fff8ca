"""`bus.errors`: the hierarchy, the attributes and the text of each error."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import TYPE_CHECKING

import pytest

import queuebroker
from bus import errors
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

if TYPE_CHECKING:
    from collections.abc import Callable

# Each error with attributes: an instance, its attributes, its text.
ERRORS: list[tuple[BusError, dict[str, object], str]] = [
    (
        NameTakenError("a"),
        {"name": "a"},
        "cannot register a task: its name is taken: 'a'; choose another name, or "
        "deregister the task that has it",
    ),
    (
        NotJoinedError("b2"),
        {"bus": "b2"},
        "cannot use a bus: this process has not joined it: 'b2'; join it with "
        "open_bus('b2'), or leave the bus out of the address",
    ),
    (
        UnknownTaskError("a"),
        {"name": "a", "ended": ""},
        "cannot use a task: it is not registered: 'a'; register it",
    ),
    (
        AlreadyAnsweredError("a"),
        {"name": "a"},
        "cannot respond: it was already answered by 'a'; if the "
        "callback calls respond itself, let it return NOREPLY",
    ),
    (
        PayloadError("payload[2]['x']", "its type cannot be sent: set"),
        {"path": "payload[2]['x']", "fact": "its type cannot be sent: set"},
        "cannot send payload[2]['x']: its type cannot be sent: set",
    ),
    (
        MessageTooLargeError(17, 16),
        {"got": 17, "limit": 16},
        "cannot send: payload is above 16 bytes: 17; send it in parts, or "
        "raise BusConfig(message_bytes_max=...) in all processes of the bus",
    ),
    (
        WrongProcessError(10, 11),
        {"opened_in": 10, "used_in": 11},
        "cannot use a bus in process 11: it was opened in process 10; call "
        "open_bus in this one",
    ),
    (
        BusyError("socket 's'"),
        {"what": "socket 's'"},
        "already in use: socket 's'",
    ),
    (
        BusFullError("task 'f'", 1024),
        {"what": "task 'f'", "limit": 1024, "unit": "messages"},
        "cannot send: task 'f' is full: 1024 messages",
    ),
    (
        ArenaFullError(8, 8),
        {"needed": 8, "limit": 8},
        "cannot send 8 bytes: the arena of 8 bytes is full; wait until recipients "
        "have released messages, or send through a link",
    ),
    (
        ArenaFullError(9, 8),
        {"needed": 9, "limit": 8},
        "cannot send 9 bytes: they exceed the arena of 8 bytes; make the arena "
        "larger, or send through a link",
    ),
    (
        StaleLeaseError(7),
        {"lease": 7},
        "cannot use a message: its lease has ended: 7; use it before the release, or "
        "copy it",
    ),
    (
        UnresolvedError("z", 5.0),
        {"name": "z", "waited_s": 5.0, "elsewhere": False},
        "cannot deliver to 'z': no task has that name: waited for 5 s; check the name, "
        "or start the program that registers it",
    ),
    (
        UnresolvedError("ism://m/z", 5.0, elsewhere=True),
        {"name": "ism://m/z", "waited_s": 5.0, "elsewhere": True},
        "cannot deliver to 'ism://m/z': no task has that name: waited for 5 s; it is "
        "on another machine: check the name there, and that both machines have opened "
        "the bus with a network",
    ),
    (
        UnreachableError("z", "connection refused"),
        {"name": "z", "fact": "connection refused"},
        "cannot deliver to 'z': no link to its process: connection refused",
    ),
    (
        MovedError("z", "ism://m/z"),
        {"name": "z", "address": "ism://m/z", "bus": ""},
        "cannot deliver to 'z': the task has moved to 'ism://m/z': send there, or set "
        "BusConfig.follow_moved_tasks",
    ),
    (
        HandOverError("z", "ism://m/y", "no room", [1], in_doubt=True),
        {
            "name": "z",
            "to": "ism://m/y",
            "why": "no room",
            "state": [1],
            "in_doubt": True,
        },
        "cannot hand over task 'z' to 'ism://m/y': no room; it is deregistered: unless"
        " 'z' has a successor nevertheless, register it again with the `state` of this"
        " error",
    ),
    (
        AddresseeGoneError("z"),
        {"name": "z"},
        "cannot deliver to 'z': the addressee has left for good",
    ),
    (
        PeerLostError("z"),
        {"name": "z"},
        "no answer from 'z': its process was lost after it took the command",
    ),
    (
        InDoubtError("z"),
        {"name": "z"},
        "cannot tell whether 'z' received a message: "
        "its process was lost before it acknowledged it",
    ),
    (
        ExpiredError("z"),
        {"name": "z"},
        "cannot deliver to 'z': the message has expired",
    ),
    (
        RemoteError("z", "ValueError: no"),
        {"name": "z", "text": "ValueError: no"},
        "'z' failed: ValueError: no",
    ),
    (
        CommandTimeoutError("z", 0.25),
        {"name": "z", "timeout_s": 0.25, "why": ""},
        "no answer from 'z': waited for 0.25 s",
    ),
    (
        CommandTimeoutError("z", 0.25, "it has no callback"),
        {"name": "z", "timeout_s": 0.25, "why": "it has no callback"},
        "no answer from 'z': waited for 0.25 s: it has no callback",
    ),
    (
        AccessDeniedError("join bus 'bus1'", "uid 7 is not on its list"),
        {"act": "join bus 'bus1'", "fact": "uid 7 is not on its list"},
        "cannot join bus 'bus1': access is denied: uid 7 is not on its list",
    ),
    (
        VersionMismatchError((1, 2), (3, 4)),
        {"ours": (1, 2), "theirs": (3, 4)},
        "cannot join: no version in common: ours 1 to 2, theirs 3 to 4",
    ),
    (
        MachineNameConflictError("m"),
        {"machine": "m"},
        "cannot join as machine 'm': a master on another host has that name; "
        "choose another one",
    ),
    (
        DuplicateSenderError("m/7"),
        {"sender": "m/7"},
        "cannot open a stream: another process sends as: 'm/7'",
    ),
    (
        HorizonError("/d/horizons", "it is broken", "restore it", 15),
        {"path": "/d/horizons", "fact": "it is broken", "offset": 15},
        "cannot use the horizons in /d/horizons at byte 15: it is broken; restore it",
    ),
]

CLASSES = {
    name: each
    for name, each in vars(errors).items()
    if inspect.isclass(each) and issubclass(each, BusError)
}


def name_of(error: object) -> str:
    return type(error).__name__


def test_the_module_offers_its_errors_and_nothing_else() -> None:
    assert set(errors.__all__) == set(CLASSES)


def test_an_error_bears_its_public_path() -> None:
    """In tracebacks and in pickles, whichever file defines it."""
    assert {each.__module__ for each in CLASSES.values()} == {"bus.errors"}
    assert MovedError("z", "m").__reduce__()[0].__module__ == "bus.errors"


def test_the_tree_is_drawn_as_it_is() -> None:
    """Each error once, directly below the root, with its other base."""
    assert errors.__doc__ is not None
    drawn = re.findall(r"[├└]── (\w+)(?: \((?:queuebroker\.)?(\w+)\))?", errors.__doc__)

    assert len(drawn) == len(CLASSES) - 1
    for name, other in drawn:
        bases = [base.__name__ for base in CLASSES[name].__bases__]
        assert bases == ["BusError", *filter(None, [other])]


def test_the_table_above_has_every_error_that_carries_data() -> None:
    carrying = {name for name, each in CLASSES.items() if "__init__" in vars(each)}
    carrying.discard("BusError")  # its constructor has no data of its own

    assert carrying == {name_of(error) for error, _, _ in ERRORS}


@pytest.mark.parametrize(
    ("error", "data", "text"),
    [pytest.param(*one, id=name_of(one[0])) for one in ERRORS],
)
def test_an_error_carries_its_data_and_makes_its_text(
    error: BusError, data: dict[str, object], text: str
) -> None:
    assert vars(error) == data
    assert str(error) == text
    assert not text.endswith(".")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, *(
    lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
)])  # fmt: skip
def test_an_error_survives_pickling_and_copying(
    make: Callable[[BusError], BusError],
) -> None:
    for original in [*(error for error, _, _ in ERRORS), WireError("no such frame")]:
        twin = make(original)

        assert type(twin) is type(original)
        assert (str(twin), twin.args) == (str(original), original.args)
        assert vars(twin) == vars(original)

        twin.add_note("seen in a pool")
        assert make(twin).__notes__ == ["seen in a pool"]
        assert not hasattr(original, "__notes__")


def test_a_payload_that_is_too_large_is_a_message_that_is_too_large() -> None:
    """A program that uses channels and a bus handles one error."""
    with pytest.raises(queuebroker.MessageTooLargeError, match="above 1 bytes: 2"):
        raise errors.MessageTooLargeError(2, 1)


def test_a_command_that_timed_out_is_a_timeout() -> None:
    """It is no system error with a number, though Python makes timeouts of those."""
    error = CommandTimeoutError("z", 1)

    assert isinstance(error, TimeoutError)
    assert (error.errno, error.strerror) == (None, None)


def test_an_error_rounds_the_waited_time_to_milliseconds() -> None:
    """The remaining timeout of a forwarded message is slightly less."""
    assert str(CommandTimeoutError("b", 1.99995)).endswith("waited for 2 s")
    assert str(CommandTimeoutError("b", 0.0125)).endswith("waited for 0.013 s")
