"""The handshake: which peers are refused, and why."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from bus.kernel.links.link import handshake, refusal, welcome
from bus.kernel.topology import Topology
from bus.kernel.wire import LinkKind, Reason, Role
from bus.model.config import BusConfig
from bus.model.rights import UNRESTRICTED
from specs.clauses import clause
from tests.kit.identities import identity


def topology(process: str, **about: Any) -> Topology:
    me = identity("m1", machine_id="id1", process=process, role=Role.SLAVE)
    return Topology(
        replace(me, **about),
        config=BusConfig(),
        nonces=itertools.repeat(1),
        addresses=(),
        outside=tuple,
        complain=lambda _: None,
    )


@clause("BUS-INIT-4", "BUS-ENT-12", "BUS-WIRE-3")
@pytest.mark.parametrize(
    ("about", "kind", "reason"),
    [
        ({}, LinkKind.SIGNALLING, None),
        ({}, LinkKind.DATA, None),
        ({"bus": "bus2"}, LinkKind.SIGNALLING, Reason.BUS),
        ({"bus": "bus2"}, LinkKind.DATA, Reason.BUS),
        ({"role": Role.MASTER}, LinkKind.SIGNALLING, Reason.DUPLICATE),
        ({"machine_id": "id2"}, LinkKind.SIGNALLING, Reason.MACHINE_NAME),
        (
            {"machine": "m2", "machine_id": "id2", "role": Role.MASTER},
            LinkKind.SIGNALLING,
            None,
        ),
        ({"machine": "m2", "machine_id": "id2"}, LinkKind.SIGNALLING, Reason.ACCESS),
        ({"machine": "m2", "machine_id": "id2"}, LinkKind.DATA, None),
    ],
    ids=str,
)
def test_a_master_accepts_only_peers_that_belong_to_it(
    about: dict[str, Any], kind: LinkKind, reason: Reason | None
) -> None:
    """Its slaves, other masters, and processes of this bus with messages for it."""
    master = topology("p1", role=Role.MASTER)

    hello = handshake(topology("p2", **about), kind)
    assert refusal(master, hello, UNRESTRICTED) is reason


@clause("BUS-WIRE-3")
def test_a_peer_without_a_common_version_is_rejected() -> None:
    hello = handshake(topology("p2"), LinkKind.DATA)

    later = replace(hello, versions=(90, 91))
    assert refusal(topology("p1"), later, UNRESTRICTED) is Reason.VERSION


def test_a_slave_is_nobodys_master() -> None:
    hello = handshake(topology("p2"), LinkKind.SIGNALLING)

    assert refusal(topology("p1"), hello, UNRESTRICTED) is Reason.BUSY


def test_a_process_that_became_master_announces_that_role() -> None:
    one = topology("p1")
    one.role = Role.MASTER

    assert welcome(one).identity.role is Role.MASTER
    assert handshake(one, LinkKind.DATA).identity.role is Role.MASTER
