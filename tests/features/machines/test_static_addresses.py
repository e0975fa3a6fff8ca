"""A master and the addresses that it was given of other machines' masters."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from bus.features import FEATURES
from bus.features.machines.machine_dialler import MachineDialler
from bus.kernel.remote_manager import RemoteManager
from bus.kernel.tasks.actions import Dial, HangUp, Send
from bus.kernel.tasks.process_manager import ProcessManager
from bus.kernel.topology import Topology
from bus.kernel.wire import Eliminate, Error, LinkKind, Reason, Refused, Role
from bus.model.config import BusConfig
from bus.model.registration import RegistrationId
from bus.model.rights import Credentials
from specs.clauses import clause
from tests.kit.identities import identity

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action
    from bus.kernel.wire import Frame

FIRST, SECOND = "tls://192.0.2.2:7400", "tls://198.51.100.2:7400"
CONFIG = BusConfig()


class Master:
    """A process, by default the master of its machine, with the lines of its log."""

    def __init__(
        self,
        machine: str,
        *static: str,
        incarnation: int = 1,
        machine_id: str = "",
        process: str = "p",
        role: Role = Role.MASTER,
        network: bool = True,
    ) -> None:
        self.log: list[str] = []
        me = identity(
            machine,
            machine_id=machine_id or machine,
            process=process,
            incarnation=incarnation,
            role=role,
        )
        topology = Topology(
            me,
            config=CONFIG,
            nonces=itertools.repeat(1),
            addresses=("here",),
            outside=lambda: ("outside",),
            complain=self.log.append,
        )
        manager = ProcessManager(
            machine,
            process,
            parked_per_name=9,
            parked_in_all=9,
            resolve_timeout_s=5.0,
            incarnation=incarnation,
        )
        self.remote = RemoteManager(
            topology,
            manager,
            host="relays",
            master=("here",),
            static=static if network else None,
        )
        # As `begin` does, which most tests do not call.
        for feature in FEATURES:
            if feature.on_begin is not None:
                self.remote.add_hooks(feature.on_begin(self.remote))

    @property
    def machines(self) -> MachineDialler:
        """The masters of other machines, as far as it knows."""
        masters = self.remote.links.masters
        assert isinstance(masters, MachineDialler)
        return masters

    @property
    def redial(self) -> dict[str, float]:
        """When each of them is to be dialled again, in seconds."""
        return self.machines.redial_at

    def dials(
        self,
        number: int,
        address: str,
        machine: str | None,
        now: float = 0.0,
        *,
        outside: bool = True,
    ) -> list[Action]:
        """Take over a link to an address, with the machine that is proved there."""
        return self.remote.on_link_dialled(
            number,
            LinkKind.SIGNALLING,
            (address, ""),
            now,
            Credentials(machine=machine, outside=outside),
        )


def connect(
    one: Master,
    two: Master,
    number: int,
    address: str,
    proved: str | None,
    now: float = 0.0,
    host: str = "",
    outside: bool = True,
) -> None:
    """Let one process dial a master, and deliver all frames of the link.

    host: from which it dials. outside: False if both are on one machine.
    """
    mine = None if proved is None else one.remote.topology.me.machine
    credentials = Credentials(machine=mine, outside=outside, host=host)
    two.remote.on_link_accepted(number, now, credentials)
    dialled = frames(one.dials(number, address, proved, now, outside=outside))
    pending = [(two, frame) for frame in dialled]
    while pending:
        to, frame = pending.pop(0)
        answers = frames(to.remote.receive(number, frame, now))
        pending += [(one if to is two else two, each) for each in answers]


def frames(actions: list[Action]) -> list[Frame]:
    """Return the frames that actions put on links."""
    return [each.frame for each in actions if isinstance(each, Send)]


@clause("BUS-ENT-10")
def test_a_master_dials_each_address_from_its_first_moment() -> None:
    begun = Master("m1", FIRST, SECOND).remote.begin(0.0)

    dialled = [each.addresses for each in begun if isinstance(each, Dial)]
    assert dialled == [(FIRST,), (SECOND,)]


@clause("OPEN-20")
def test_of_the_addresses_of_one_machine_one_is_dialled() -> None:
    one, two = Master("m1", FIRST, SECOND), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    connect(one, two, 2, SECOND, "m2")

    one.redial.update({FIRST: 1.0, SECOND: 1.0})
    due = one.remote.tick(1.0)

    assert not [each for each in due if isinstance(each, Dial)]
    assert (one.log, two.log) == ([], [])


@clause("BUS-ENT-10", "OPEN-20")
def test_after_a_loss_each_address_of_the_machine_is_dialled_again() -> None:
    """The link may have been lost with the network of one of them."""
    one, two = Master("m1", FIRST, SECOND), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    connect(one, two, 2, SECOND, "m2")

    lost = one.remote.on_link_lost(1, 1.0) + one.remote.tick(3.0)

    dialled = {each.addresses for each in lost if isinstance(each, Dial)}
    assert dialled == {(FIRST,), (SECOND,)}


@clause("OPEN-20", "BUS-SEC-10")
def test_two_masters_without_keys_that_dial_each_other_dial_once() -> None:
    """The refusal tells which machine is at the address."""
    one, two = Master("m1", FIRST), Master("m2", SECOND)
    connect(one, two, 1, FIRST, None)
    connect(two, one, 2, SECOND, None)

    due = two.remote.tick(1.0)

    assert not [each for each in due if isinstance(each, Dial)]
    assert SECOND not in two.redial
    assert (one.log, two.log) == ([], [])


@clause("OPEN-20")
def test_a_second_link_to_a_machine_is_not_tried_in_a_tight_loop() -> None:
    """Even if the refusal does not tell which machine refuses."""
    one = Master("m1", FIRST)
    one.dials(1, FIRST, None)

    one.remote.receive(1, Refused(reason=Reason.DUPLICATE, versions=(1, 1)), 0.0)

    assert 0.0 < one.redial[FIRST] < 1.0
    assert one.log == []


@clause("BUS-WIRE-4")
def test_an_objection_to_an_accepted_link_is_no_violation() -> None:
    """A dialling process closes the link; REFUSED is an answer to HELLO alone."""
    one, two = Master("m1", FIRST), Master("m2")

    connect(one, two, 1, FIRST, "m3")

    assert two.log == []


@clause("BUS-SEC-10")
@pytest.mark.parametrize("reason", [Reason.ACCESS, Reason.VERSION, Reason.BUS])
def test_a_refusal_is_logged_with_the_address(reason: Reason) -> None:
    one = Master("m1", FIRST)
    one.dials(1, FIRST, "m2")

    one.remote.receive(1, Refused(reason=reason, versions=(1, 1)), 0.0)

    assert one.log == [f"{FIRST} refuses this process: {reason.value}"]
    assert 0.0 < one.redial[FIRST] < 1.0


@clause("BUS-SEC-5")
def test_another_machine_at_an_address_is_dialled_again_later() -> None:
    one, two = Master("m1", FIRST), Master("m2")

    connect(one, two, 1, FIRST, "m3")

    assert one.log == [
        "machine m3 claims to be m2 (BUS-SEC-5)",
        "process 'm2/p' (pid 1) is rejected: access",
    ]
    assert one.remote.topology.peers == {}
    assert FIRST in one.redial


@clause("BUS-SEC-1", "BUS-SEC-5")
def test_no_process_of_this_machine_comes_by_the_network() -> None:
    """It could pass by the access list, which names users of this machine."""
    one, other = Master("m1"), Master("m1", FIRST, incarnation=2)
    one.remote.on_link_accepted(1, 0.0, Credentials(outside=True))
    hello = other.remote.on_link_dialled(1, LinkKind.DATA, ("m1", "p"), 0.0)

    for frame in frames(hello):
        answer = frames(one.remote.receive(1, frame, 0.0))

    assert isinstance(answer[0], Refused)
    assert answer[0].reason is Reason.ACCESS
    assert one.log[0] == "a process of this machine came by the network"


@clause("BUS-DISC-1")
def test_without_a_network_the_master_of_another_machine_is_refused() -> None:
    one, two = Master("m1", FIRST), Master("m2", network=False)

    connect(one, two, 1, FIRST, None)

    assert two.remote.topology.peers == {}
    assert two.log == ["process 'm1/p' (pid 1) is rejected: access"]
    assert one.log == [f"{FIRST} refuses this process: access"]


@clause("BUS-SEC-7")
def test_a_master_speaks_for_tasks_of_its_own_machine_only() -> None:
    one, two = Master("m1", FIRST), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    eliminate = Eliminate(id=RegistrationId("m3", "p", 1), name="task")

    actions = one.remote.receive(1, eliminate, 1.0)

    [error] = [each for each in frames(actions) if isinstance(each, Error)]
    assert error.reason is Reason.WIRE
    assert [each for each in actions if isinstance(each, HangUp)]
    assert "refers to a task of machine m3" in one.log[0]
