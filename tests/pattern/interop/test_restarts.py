"""Peers that restart: the other side connects again, whichever role it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pattern.interop.library import ForeignPeer, Library
from tests.pattern.interop.meeting import meet_all
from tests.pattern.interop.party import TRANSPORTS
from tests.support import until

if TYPE_CHECKING:
    from tests.pattern.interop.party import Party

BOTH = pytest.mark.parametrize("library", ["nng", "nanomsg"])
EVERY = pytest.mark.parametrize("transport", TRANSPORTS)
ROLES = pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])


@BOTH
@EVERY
@ROLES
def test_our_socket_restarts_and_the_other_library_connects_again(
    party: Party, library: str, transport: str, listens: bool
) -> None:
    """Three times, at the same address."""
    other = party.foreign(library)
    ours = party.own()
    url = party.listen(ours if listens else other, transport)
    (other if listens else ours).dial(url)
    meet_all([ours, other])

    for _ in range(3):
        ours.close()
        ours = party.own()
        if listens:
            ours.listen(url)
        else:
            ours.dial(url)
        meet_all([ours, other])


@BOTH
@EVERY
@ROLES
def test_a_program_with_another_library_is_killed_and_we_connect_again(
    party: Party, library: str, transport: str, listens: bool
) -> None:
    """A listener leaves its socket file behind, which the next one replaces."""
    party.libraries.get(library)  # skips the test if it is not here
    ours = party.own()
    program = Library(library)
    try:
        other = ForeignPeer(program, "bus", raw=False, options={})
        url = party.listen(other if listens else ours, transport)
        (ours if listens else other).dial(url)
        meet_all([ours, other])

        for _ in range(2):
            program.kill()
            until(lambda: not ours.socket.stats.peers, "the loss is noticed")
            program = Library(library)
            other = ForeignPeer(program, "bus", raw=False, options={})
            if listens:
                other.listen(url)
            else:
                other.dial(url)
            meet_all([ours, other])
    finally:
        program.kill()


@BOTH
@EVERY
def test_a_dialler_of_ours_waits_for_a_listener_that_comes_later(
    party: Party, library: str, transport: str
) -> None:
    """It dials until somebody listens."""
    other, ours = party.foreign(library), party.own()
    url = party.listen(other, transport)
    other.close()
    ours.dial(url)
    [dialler] = ours.diallers
    until(lambda: dialler.error is not None, "an attempt has failed")

    late = party.foreign(library)
    late.listen(url)

    meet_all([ours, late])
