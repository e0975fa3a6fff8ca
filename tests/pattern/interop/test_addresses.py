"""Addresses at which all libraries wait_for_delivery, and those that are refused."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.kit.systems import needs_abstract_names
from tests.pattern.interop.delivery import wait_for_mesh
from tests.pattern.interop.library import ForeignPeer, Library, LibraryDiedError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pattern.interop.testbed import Testbed

BOTH = pytest.mark.parametrize("library", ["nng", "nanomsg"])
ROLES = pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])


def path_of(folder: Path, length: int) -> str:
    """Return a path of so many bytes."""
    return f"{folder}/".ljust(length, "p")


@pytest.mark.deep
@BOTH
@ROLES
def test_a_path_of_107_bytes_connects(
    testbed: Testbed, library: str, listens: bool
) -> None:
    """It is the longest that the system allows."""
    ours, other = testbed.own(), testbed.foreign(library)
    url = "ipc://" + path_of(testbed.folder, 107)
    first, second = (ours, other) if listens else (other, ours)

    first.listen(url)
    second.dial(url)

    wait_for_mesh([ours, other])


@pytest.mark.parametrize("act", ["listen", "dial"])
def test_a_path_of_108_bytes_is_refused_before_the_system_sees_it(
    testbed: Testbed, act: str
) -> None:
    """libnanomsg would abort its process."""
    url = "ipc://" + path_of(testbed.folder, 108)

    with pytest.raises(ValueError, match=r"at most 10[37] bytes, got 108"):
        getattr(testbed.own(), act)(url)

    assert not [*testbed.folder.iterdir()]


def test_the_fault_of_nanomsg_with_a_long_path_is_still_there(testbed: Testbed) -> None:
    """So the limit of 107 bytes is ours to keep; NNG refuses the address."""
    url = "ipc://" + path_of(testbed.folder, 108)

    with pytest.raises(OSError, match="AddressInvalid"):
        testbed.foreign("nng").listen(url)
    testbed.libraries.get("nanomsg")  # skips the test if it is not installed
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
    testbed: Testbed, library: str, name: str, listens: bool
) -> None:
    """None of them decodes percent codes, and our listener shows none."""
    ours, other = testbed.own(), testbed.foreign(library)
    url = f"ipc://{testbed.folder}/{name}"
    first, second = (ours, other) if listens else (other, ours)

    shown = first.listen(url)
    second.dial(shown)

    wait_for_mesh([ours, other])
    assert shown == url
    assert (testbed.folder / name).is_socket()


@needs_abstract_names
@pytest.mark.parametrize("name", ["plain", "with%20blank", "%C3%A9"])
@ROLES
def test_abstract_names_are_those_of_nng(
    testbed: Testbed, name: str, listens: bool
) -> None:
    """The name on the system is exactly as long as the one in the address."""
    ours, other = testbed.own(), testbed.foreign("nng")
    url = f"abstract://{testbed.folder.name}{name}"
    first, second = (ours, other) if listens else (other, ours)

    first.listen(url)
    second.dial(url)

    wait_for_mesh([ours, other])


@BOTH
@ROLES
def test_an_address_in_use_is_refused_to_the_second_listener(
    testbed: Testbed, library: str, listens: bool
) -> None:
    """The first listener still accepts connections."""
    ours, other = testbed.own(), testbed.foreign(library)
    first, second = (ours, other) if listens else (other, ours)
    for transport in ("ipc", "tcp"):
        url = testbed.listen(first, transport)

        with pytest.raises(OSError, match=r"(?i)in use|EADDRINUSE"):
            second.listen(url)

        dialler = testbed.own()
        dialler.dial(url)
        wait_for_mesh([dialler, first])
        dialler.close()


@pytest.mark.parametrize("library", ["ours", "nng", "nanomsg"])
def test_the_file_of_a_listener_that_died_is_replaced(
    testbed: Testbed, library: str
) -> None:
    """A killed process leaves a file at which no socket listens."""
    path = testbed.path()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    listener, dialler = testbed.open(library), testbed.own()

    listener.listen(f"ipc://{path}")
    dialler.dial(f"ipc://{path}")

    wait_for_mesh([listener, dialler])


def test_the_file_of_our_listener_is_removed_with_it(testbed: Testbed) -> None:
    """As both libraries do."""
    ours = testbed.own()
    path = testbed.path()
    ours.listen(f"ipc://{path}")
    assert path.is_socket()

    ours.close()

    assert not path.exists()


def test_unix_is_another_name_of_ipc(testbed: Testbed) -> None:
    """NNG knows both."""
    ours, other = testbed.own(), testbed.foreign("nng")
    path = testbed.path()

    ours.listen(f"unix://{path}")
    other.dial(f"ipc://{path}")

    wait_for_mesh([ours, other])


@pytest.mark.parametrize("scheme", ["tcp", "tcp6"])
def test_ipv6_addresses_are_those_of_nng(testbed: Testbed, scheme: str) -> None:
    """With the address in brackets."""
    ours, other = testbed.own(), testbed.foreign("nng")

    url = ours.listen(f"{scheme}://[::1]:0")
    other.dial(url)

    wait_for_mesh([ours, other])
