"""Addresses at which all libraries meet, and those that are refused."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.pattern.interop.library import ForeignPeer, Library, LibraryDiedError
from tests.pattern.interop.meeting import meet_all

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pattern.interop.party import Party

BOTH = pytest.mark.parametrize("library", ["nng", "nanomsg"])
ROLES = pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])


def path_of(folder: Path, length: int) -> str:
    """Return a path of so many bytes."""
    return f"{folder}/".ljust(length, "p")


@BOTH
@ROLES
def test_a_path_of_107_bytes_connects(
    party: Party, library: str, listens: bool
) -> None:
    """It is the longest that the system allows."""
    ours, other = party.own(), party.foreign(library)
    url = "ipc://" + path_of(party.folder, 107)
    first, second = (ours, other) if listens else (other, ours)

    first.listen(url)
    second.dial(url)

    meet_all([ours, other])


@pytest.mark.parametrize("act", ["listen", "dial"])
def test_a_path_of_108_bytes_is_refused_before_the_system_sees_it(
    party: Party, act: str
) -> None:
    """libnanomsg would abort its process."""
    url = "ipc://" + path_of(party.folder, 108)

    with pytest.raises(ValueError, match="at most 107 bytes, got 108"):
        getattr(party.own(), act)(url)

    assert not [*party.folder.iterdir()]


def test_the_fault_of_nanomsg_with_a_long_path_is_still_there(party: Party) -> None:
    """So the limit of 107 bytes is ours to keep; NNG refuses the address."""
    url = "ipc://" + path_of(party.folder, 108)

    with pytest.raises(OSError, match="AddressInvalid"):
        party.foreign("nng").listen(url)
    party.libraries.get("nanomsg")  # skips the test if it is not here
    program = Library("nanomsg")
    try:
        with pytest.raises(LibraryDiedError) as caught:
            ForeignPeer(program, "bus", raw=False, options={}).listen(url)
    finally:
        program.kill()
    assert caught.value.code == -signal.SIGABRT


@ROLES
@BOTH
@pytest.mark.parametrize("name", ["a%20b", "a b", "%41", "100%", "\N{EURO SIGN}"])
def test_a_path_is_taken_as_it_is_by_all_libraries(
    party: Party, library: str, name: str, listens: bool
) -> None:
    """None of them decodes percent codes, and our listener shows none."""
    ours, other = party.own(), party.foreign(library)
    url = f"ipc://{party.folder}/{name}"
    first, second = (ours, other) if listens else (other, ours)

    shown = first.listen(url)
    second.dial(shown)

    meet_all([ours, other])
    assert shown == url
    assert (party.folder / name).is_socket()


@pytest.mark.parametrize("name", ["plain", "with%20blank", "%C3%A9"])
@ROLES
def test_abstract_names_are_those_of_nng(
    party: Party, name: str, listens: bool
) -> None:
    """The name on the system is exactly as long as the one in the address."""
    ours, other = party.own(), party.foreign("nng")
    url = f"abstract://{party.folder.name}{name}"
    first, second = (ours, other) if listens else (other, ours)

    first.listen(url)
    second.dial(url)

    meet_all([ours, other])


@BOTH
@ROLES
def test_an_address_in_use_is_refused_by_whoever_comes_second(
    party: Party, library: str, listens: bool
) -> None:
    """The first listener goes on."""
    ours, other = party.own(), party.foreign(library)
    first, second = (ours, other) if listens else (other, ours)
    for transport in ("ipc", "tcp"):
        url = party.listen(first, transport)

        with pytest.raises(OSError, match=r"(?i)in use|EADDRINUSE"):
            second.listen(url)

        guest = party.own()
        guest.dial(url)
        meet_all([guest, first])
        guest.close()


@pytest.mark.parametrize("library", ["ours", "nng", "nanomsg"])
def test_the_file_of_a_listener_that_died_is_replaced(
    party: Party, library: str
) -> None:
    """A file at which nobody listens is left from a killed process."""
    path = party.path()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    listener, guest = party.open(library), party.own()

    listener.listen(f"ipc://{path}")
    guest.dial(f"ipc://{path}")

    meet_all([listener, guest])


def test_the_file_of_our_listener_is_removed_with_it(party: Party) -> None:
    """As both libraries do."""
    ours = party.own()
    path = party.path()
    ours.listen(f"ipc://{path}")
    assert path.is_socket()

    ours.close()

    assert not path.exists()


def test_unix_is_another_word_for_ipc(party: Party) -> None:
    """NNG knows both."""
    ours, other = party.own(), party.foreign("nng")
    path = party.path()

    ours.listen(f"unix://{path}")
    other.dial(f"ipc://{path}")

    meet_all([ours, other])


@pytest.mark.parametrize("scheme", ["tcp", "tcp6"])
def test_ipv6_addresses_are_those_of_nng(party: Party, scheme: str) -> None:
    """With the address in brackets."""
    ours, other = party.own(), party.foreign("nng")

    url = ours.listen(f"{scheme}://[::1]:0")
    other.dial(url)

    meet_all([ours, other])
