"""Peers that restart: the other side connects again, whichever role it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pattern.interop.delivery import wait_for_mesh
from tests.pattern.interop.library import ForeignPeer, Library
from tests.pattern.interop.testbed import TRANSPORTS
from tests.support import until

if TYPE_CHECKING:
    from tests.pattern.interop.testbed import Testbed

BOTH = pytest.mark.parametrize("library", ["nng", "nanomsg"])
EVERY = pytest.mark.parametrize("transport", TRANSPORTS)
ROLES = pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])


@pytest.mark.deep
@BOTH
@EVERY
@ROLES
def test_our_socket_restarts_and_the_other_library_connects_again(
    testbed: Testbed, library: str, transport: str, listens: bool
) -> None:
    """Three times, at the same address."""
    other = testbed.foreign(library)
    ours = testbed.own()
    url = testbed.listen(ours if listens else other, transport)
    (other if listens else ours).dial(url)
    wait_for_mesh([ours, other])

    for _ in range(3):
        ours.close()
        ours = testbed.own()
        if listens:
            ours.listen(url)
        else:
            ours.dial(url)
        wait_for_mesh([ours, other])


@pytest.mark.deep
@BOTH
@EVERY
@ROLES
def test_a_program_with_another_library_is_killed_and_we_connect_again(
    testbed: Testbed, library: str, transport: str, listens: bool
) -> None:
    """A listener leaves its socket file behind, which the next one replaces."""
    testbed.libraries.get(library)  # skips the test if it is not installed
    ours = testbed.own()
    program = Library(library)
    try:
        other = ForeignPeer(program, "bus", raw=False, options={})
        url = testbed.listen(other if listens else ours, transport)
        (ours if listens else other).dial(url)
        wait_for_mesh([ours, other])

        for _ in range(2):
            program.kill()
            until(lambda: not ours.socket.stats.peers, "the loss is noticed")
            program = Library(library)
            other = ForeignPeer(program, "bus", raw=False, options={})
            if listens:
                other.listen(url)
            else:
                other.dial(url)
            wait_for_mesh([ours, other])
    finally:
        program.kill()


@BOTH
@EVERY
def test_our_dialler_waits_for_a_later_listener(
    testbed: Testbed, library: str, transport: str
) -> None:
    """It dials until a socket listens there."""
    other, ours = testbed.foreign(library), testbed.own()
    url = testbed.listen(other, transport)
    other.close()
    ours.dial(url)
    [dialler] = ours.diallers
    until(lambda: dialler.error is not None, "an attempt has failed")

    late = testbed.foreign(library)
    late.listen(url)

    wait_for_mesh([ours, late])
