"""BUS-SEC-10: a second link with a process is refused; only a conflict is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from bus.kernel.wire import VERSIONS, Hello, LinkKind, Reason, Refused
from bus.model.config import BusConfig
from bus.model.rights import Credentials, Rights
from specs.clauses import clause
from tests.simulate.mesh import Mesh

if TYPE_CHECKING:
    from bus.kernel.wire import Identity
    from tests.simulate.process import SimProcess

_LINK = 10_000  # a number that no other link of the world has


class BothDial(Mesh):
    """A world in which both masters of a pair dial as soon as they find each other."""

    def _known(self, process: SimProcess, machine: str, address: str) -> None:
        found = process.machines.on_found
        process.event(lambda: found(machine, (address,), self.now, 0.0))


def started(seed: int) -> tuple[BothDial, SimProcess, list[str]]:
    """Start two machines; return the world, one of them, and the log of both."""
    world = BothDial(seed, config=BusConfig())
    world.frames = []
    log: list[str] = []
    for machine in ("m1", "m2"):
        master = world.start(machine, "s1", master=True)
        master.remote.topology.complain = log.append  # type: ignore[misc]
    world.run(3.0)
    return world, world.masters["m1"], log


def refusals(world: BothDial) -> list[Reason]:
    """Return the reason of each REFUSED that was sent."""
    assert world.frames is not None
    return [frame.reason for *_, frame in world.frames if isinstance(frame, Refused)]


@clause("BUS-SEC-10", "BUS-ROUTE-11")
def test_two_masters_that_both_dial_log_nothing() -> None:
    """In some runs both HELLOs cross, in others one link is refused."""
    refused = 0
    for seed in range(20):
        world, master, log = started(seed)
        refused += len(refusals(world))
        assert set(refusals(world)) <= {Reason.DUPLICATE}, seed
        assert log == [], seed
        [peer] = master.remote.topology.peers.values()
        assert peer.session.link is not None, seed
    assert refused


def log_of_hello(
    process: SimProcess, identity: Identity, credentials: Credentials, now: float = 3.0
) -> list[str]:
    """Let somebody dial a process with an identity; return what the process logs."""
    log: list[str] = []
    process.remote.topology.complain = log.append  # type: ignore[misc]
    hello = Hello(
        versions=VERSIONS,
        identity=identity,
        kind=LinkKind.SIGNALLING,
        message_bytes_max=1024,
    )
    links = process.remote.links
    links.on_accepted(_LINK, now, credentials)
    links.on_hello(links.by_number[_LINK], hello, now)
    assert _LINK not in links.by_number
    return log


def start_of(line: str) -> str:
    """Return the part of a line of the log that names the conflict."""
    return line.partition(": ")[0].partition(" (pid")[0]


def own_identity(process: SimProcess) -> Identity:
    """Return the identity with which a process dials."""
    topology = process.remote.topology
    return replace(topology.me, role=topology.role)


@clause("BUS-SEC-10", "AMO-18")
@pytest.mark.parametrize(
    ("host", "certified", "line"),
    [
        ("another", None, "two machines are named 'm2'"),
        ("", "m3", "process 'm2/s1'"),
    ],
    ids=["other host", "other certificate"],
)
def test_another_process_with_the_name_of_a_linked_one_is_logged(
    host: str, certified: str | None, line: str
) -> None:
    """Its identity is that of the linked process, except for one thing."""
    world, master, _ = started(1)
    linked = own_identity(world.masters["m2"])
    identity = replace(linked, machine_id=host or linked.machine_id)

    again = log_of_hello(master, linked, Credentials(0, Rights()))
    other = log_of_hello(master, identity, Credentials(0, Rights(), machine=certified))

    assert again == []
    assert [start_of(each) for each in other] == [line]


@clause("BUS-SEC-10", "AMO-18")
def test_an_earlier_life_of_a_linked_process_gets_no_link() -> None:
    """Not even if the linked one does not answer; that refusal is logged."""
    world, master, _ = started(1)
    linked = own_identity(world.masters["m2"])
    identity = replace(linked, incarnation=linked.incarnation - 1)

    tested = log_of_hello(master, identity, Credentials(0, Rights()), 3.0)
    silent = log_of_hello(master, identity, Credentials(0, Rights()), 4.0)

    assert tested == []
    [line] = silent
    assert line.startswith("process 'm2/s1' (pid ")


@clause("BUS-SEC-10", "BUS-DISC-8")
@pytest.mark.parametrize(
    ("age", "outside", "certified", "line"),
    [
        (0, True, None, ""),
        (0, True, "m1", ""),
        (0, True, "m2", "process 'm1/s1'"),
        (0, False, None, "process 'm1/s1'"),
        (1, True, "m1", "two machines are named 'm1'"),
        (-1, True, None, "two machines are named 'm1'"),
    ],
    ids=[
        *("itself", "itself, keys", "other certificate", "this machine"),
        *("earlier life", "later life"),
    ],
)
def test_a_master_that_dials_itself_is_no_conflict(
    age: int, outside: bool, certified: str | None, line: str
) -> None:
    """At one of its own addresses; another process that claims to be it is one."""
    _, master, _ = started(1)
    own = own_identity(master)
    identity = replace(own, incarnation=own.incarnation - age)

    log = log_of_hello(
        master, identity, Credentials(machine=certified, outside=outside)
    )

    assert [start_of(each) for each in log] == ([line] if line else [])
