"""Processes of two machines that reach each other only through their masters."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bus import Role, UnreachableError
from bus.demo.cable import Cable
from bus.features.machines.gateway import (
    Answer,
    DialInside,
    DialOutside,
    GatewayClient,
    Vouch,
)
from bus.features.machines.gateway_server import GatewayServer
from bus.features.machines.network import Network
from bus.model.config import BusConfig
from bus.process.link_helpers import GATEWAY_PORT
from bus.process.peer_trust import PeerTrust
from queuebroker import BrokerManager
from queuebroker._net import unused_port
from queuebroker.sockets import SocketMessageQueue, SocketQueueBroker
from specs.clauses import clause
from tests.kit.comm_threads import comm_of
from tests.kit.inspection import all_acknowledged
from tests.kit.site import HERE, THERE, Site
from tests.kit.systems import require_unix_sockets
from tests.kit.tasks import unwanted
from tests.process.processes import linked
from tests.process.real import Far
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus
    from bus.features.machines.gateway import LinkEnd
    from bus.kernel.peer.peer import Peer

ECHO = f"ism://{THERE}/echo"


@contextmanager
def masters(site: Site, here: bool = True, there: bool = True) -> Iterator[list[Far]]:
    """Start the masters; a machine without a gateway has direct links."""
    networks = [
        site.network(HERE, gateway=here),
        site.network(THERE, gateway=there),
    ]
    with (
        Far("m1", role="master", machine=HERE, network=networks[0]) as m1,
        site.there("m2", role="master", network=networks[1]) as m2,
    ):
        m1.started()
        yield [m1, m2]


@contextmanager
def behind_gateways(site: Site) -> Iterator[tuple[Bus, Far, Far]]:
    """Yield a slave of each machine, and the master of the second machine."""
    network = site.network(HERE, gateway=True)
    with (
        masters(site) as (_, m2),
        site.there("far", network=site.network(THERE, gateway=True)) as far,
        site.here("near", role=Role.SLAVE, network=network) as near,
    ):
        yield near, far, m2


def peer(bus: Bus, name: str) -> Peer:
    """Return another process as this one knows it."""
    peers = comm_of(bus).remote.topology.peers.values()
    return next(each for each in peers if each.key[1] == name)


def is_direct(bus: Bus, name: str) -> bool:
    """Return True if no master passes on the frames of a link."""
    found = peer(bus, name)
    assert found.credentials is not None
    assert found.credentials.machine == found.machine
    return found.credentials.is_direct


@pytest.mark.deep
@clause("BUS-ROUTE-16", "BUS-MSG-8")
@pytest.mark.parametrize(
    ("here", "there"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["both", "here", "there", "none"],
)
def test_end_processes_talk_through_their_masters_if_a_network_says_so(
    site: Site, here: bool, there: bool
) -> None:
    """In order, with answers, and in both directions over one link."""
    network = site.network(HERE, gateway=here)
    with (
        masters(site, here, there),
        site.there("far", network=site.network(THERE, gateway=there)) as far,
        site.here("near", role=Role.SLAVE, network=network) as near,
    ):
        far("counter('echo')")
        near.register("own", on_command=lambda message: message.payload)

        assert near.call(ECHO, 1, timeout=LIMIT_S) == 1
        for number in range(200):
            near.command(ECHO, number)
        assert near.call(ECHO, "last", timeout=LIMIT_S) == "last"
        assert far(f"bus.call('ism://{HERE}/own', 2, timeout=20)") == 2

        assert far("made['echo'].got") == [1, *range(200), "last"]
        assert linked(near) == {"m1", "far"}
        assert is_direct(near, "far") is not (here or there)


@clause("BUS-ROUTE-16", "BUS-FLOW-1")
def test_a_slow_task_behind_a_gateway_makes_its_senders_wait(site: Site) -> None:
    """The masters keep no more than the links hold, and drop nothing."""
    with behind_gateways(site) as (near, far, _):
        far("counter('echo')")
        assert near.call(ECHO, "first", timeout=LIMIT_S) == "first"
        sender = near.register("sender", on_undelivered=unwanted)
        for number in range(400):
            sender.command(ECHO, [number, bytes(20_000)])

        far("made['echo'].has(401)")
        got = far("[each[0] for each in made['echo'].got[1:]]")
        assert got == [*range(400)]
        all_acknowledged(near)


@clause("BUS-ROUTE-16", "OPEN-1")
def test_another_master_is_the_gateway_after_the_first_is_lost(site: Site) -> None:
    """A process behind it may even become that master itself."""
    with behind_gateways(site) as (near, far, m2):
        far("counter('echo')")
        assert near.call(ECHO, 1, timeout=LIMIT_S) == 1

        m2.kill()

        far("counter('late')")
        assert near.call(f"ism://{THERE}/late", 2, timeout=LIMIT_S) == 2
        assert near.call(ECHO, 3, timeout=LIMIT_S) == 3
        assert far("made['echo'].got") == [1, 3]


@pytest.mark.deep
@clause("BUS-ROUTE-16", "BUS-DEREG-9")
def test_the_loss_of_a_process_behind_a_gateway_is_noticed(site: Site) -> None:
    with behind_gateways(site) as (near, far, _):
        far("counter('echo')")
        assert near.call(ECHO, 1, timeout=LIMIT_S) == 1

        far.kill()

        until(lambda: linked(near) == {"m1"}, "its link is lost")


@clause("OPEN-15")
def test_end_processes_listen_within_the_given_ports(site: Site) -> None:
    """If all are in use, their senders get an error."""
    port = unused_port()
    network = site.network(THERE, ports=(port, port))
    with (
        site.here() as near,
        site.there("m2", role="master", network=network),
        site.there("one", network=network) as one,
        site.there("two", network=network) as two,
    ):
        one("counter('one')")
        two("counter('two')")

        assert near.call(f"ism://{THERE}/one", 1, timeout=LIMIT_S) == 1
        assert peer(near, "one").addresses == (f"tls://127.0.0.1:{port}",)
        with pytest.raises(UnreachableError):
            near.call(f"ism://{THERE}/two", timeout=LIMIT_S)


@clause("OPEN-19", "BUS-ROUTE-16")
def test_others_get_the_advertised_address_of_a_master_and_of_those_behind_it(
    site: Site,
) -> None:
    """Behind a router that translates addresses, they reach no other."""
    with Cable() as router:
        port = router.lead_to(site.ports[THERE])
        network = site.network(
            THERE,
            gateway=True,
            discovery="host",
            discovery_port=unused_port(datagrams=True),
            advertise=f"127.0.0.1:{port}",
        )
        with (
            Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
            site.there("m2", role="master", network=network) as m2,
            site.there("far", network=network) as far,
        ):
            m1.started()
            with site.here(role=Role.SLAVE) as near:
                for number, process in enumerate((m2, far)):
                    process(f"counter('echo{number}')")
                    name = f"ism://{THERE}/echo{number}"
                    assert near.call(name, 1, timeout=LIMIT_S) == 1

                place = f"tls://127.0.0.1:{port}"
                assert peer(near, "m2").addresses == (place,)
                assert peer(near, "far").addresses == (f"{place}/far",)


# Requests, to one gateway alone.


class Trust(PeerTrust):
    """The trust of a process, as one test wants it."""

    def __init__(self) -> None:
        super().__init__(BusConfig().access, None)
        self.trusted = True

    def is_trusted(self, queue: SocketMessageQueue) -> bool:
        return self.trusted


def client_of(
    master: str,
    trust: PeerTrust,
    timeout_s: float = LIMIT_S,
    frame_bytes_max: int = 1000,
) -> GatewayClient:
    """Return the client of a process, by the address of its master."""
    return GatewayClient(
        master, trust, timeout_s=timeout_s, frame_bytes_max=frame_bytes_max
    )


class Alone:
    """The gateway of one master, and a process that asks it."""

    def __init__(self, folder: Path, manager: BrokerManager) -> None:
        self.trust = Trust()
        self.vouched: list[LinkEnd] = []
        self.address = f"ipc://{folder}/master"
        self.broker = SocketQueueBroker("m", listen=self.address, manager=manager)
        # Over the network no system reports the user of a peer.
        self.outside = SocketQueueBroker(
            "m outside", listen="tcp://127.0.0.1:0", manager=manager
        )
        self.asker = SocketQueueBroker("asker", manager=manager)
        client = client_of(self.address, self.trust, timeout_s=0.5)
        network = Network(keys=folder)  # permits TLS alone
        self.gateway = GatewayServer("m", client, self.trust, network, self)
        self.folder = folder
        self.absent = 0  # how often the slave is still unknown
        self.entrance = f"{self.outside.address}/slave"
        self.gateway.serve(self.broker)
        self.gateway.serve(self.outside)

    def inside_address_of(self, process: str) -> str | None:
        """Return the address of the slave."""
        if process != "slave":
            return None
        self.absent -= 1
        return f"ipc://{self.folder}/slave" if self.absent < 0 else None

    def on_vouched(self, made: LinkEnd) -> None:
        """Note a link."""
        self.vouched.append(made)

    def ask(
        self, request: Any, *, outside: bool | None = None
    ) -> tuple[SocketMessageQueue, Answer]:
        """Send a request, over TCP if it is from outside; return link and answer."""
        if outside is None:
            outside = isinstance(request, DialInside)
        address = self.outside.address if outside else self.address
        assert address is not None
        queue = self.asker.connect(
            address, GATEWAY_PORT, timeout=LIMIT_S, required=True
        )
        assert isinstance(queue, SocketMessageQueue)
        queue.send(msgspec.msgpack.encode(request))
        return queue, msgspec.msgpack.decode(
            queue.receive(timeout=LIMIT_S), type=Answer
        )


@pytest.fixture
def alone(own_run_directory: Path) -> Iterator[Alone]:
    """Return a gateway, which is closed at the end."""
    require_unix_sockets()  # a gateway links processes of its machine
    own_run_directory.mkdir(exist_ok=True)
    with BrokerManager() as manager:
        yield Alone(own_run_directory, manager)


@clause("BUS-SEC-8", "BUS-ROUTE-16")
@pytest.mark.parametrize(
    ("request_", "trusted", "why"),
    [
        (DialInside("nobody"), True, "no process 'nobody' has joined the master"),
        (DialInside("slave"), True, "the gateway does not reach 'slave'"),
        (DialOutside("ipc:///run/else"), True, "the network permits other machines"),
        (DialOutside("tcp://127.0.0.1:1"), True, "the network permits other machines"),
        (DialOutside("tls://192.0.2.1:1"), False, "lacks full rights"),
        (Vouch("other"), False, "lacks full rights"),
    ],
)
def test_a_refused_request_gets_the_reason(
    alone: Alone, request_: Any, trusted: bool, why: str
) -> None:
    alone.trust.trusted = trusted

    queue, answer = alone.ask(request_)

    assert why in answer.refusal
    assert alone.vouched == []
    queue.disconnect()


@clause("BUS-ROUTE-16")
@pytest.mark.parametrize(
    "request_", [Vouch("other"), DialInside("m")], ids=["slave", "own"]
)
def test_a_link_with_this_process_is_handed_over(alone: Alone, request_: Any) -> None:
    """With the machine that the master vouches for."""
    queue, answer = alone.ask(request_)
    until(lambda: bool(alone.vouched), "it is handed over")
    [made] = alone.vouched
    queue.send(b"frame")

    assert answer.refusal == ""
    assert not made.is_direct
    assert made.machine == getattr(request_, "machine", "")
    assert made.queue.receive(timeout=LIMIT_S) == b"frame"
    queue.disconnect()
    made.queue.disconnect()


@clause("BUS-WIRE-4")
@pytest.mark.parametrize("said", [b"", b"\xff", b"HELLO", bytes(64)])
def test_a_request_of_another_form_ends_its_link_alone(
    alone: Alone, said: bytes
) -> None:
    queue = alone.asker.connect(alone.address, GATEWAY_PORT, required=True)
    queue.send(said)

    [answer_to_it] = list(queue)
    assert msgspec.msgpack.decode(answer_to_it, type=Answer).refusal
    after, answer = alone.ask(DialInside("nobody"))
    assert answer.refusal
    after.disconnect()
    queue.disconnect()


@clause("BUS-ROUTE-16", "QB-DISC-2")
def test_what_one_end_sent_before_it_left_arrives(
    alone: Alone, own_run_directory: Path
) -> None:
    """Then the other end sees an orderly end, in each direction."""
    with BrokerManager() as elsewhere, Threads() as threads:
        slave = SocketQueueBroker(
            "slave", listen=f"ipc://{own_run_directory}/slave", manager=elsewhere
        )
        accepting = threads.start(slave.accept, GATEWAY_PORT)
        asking = threads.start(alone.ask, DialInside("slave"))
        far = accepting.result()
        assert msgspec.msgpack.decode(far.receive(), type=Vouch) == Vouch("")
        far.send(msgspec.msgpack.encode(Answer()))
        near, answer = asking.result()
        assert answer == Answer(frame_bytes_max=1000)

        def say() -> None:
            for number in range(1000):
                near.send(b"%d" % number)
            near.disconnect()

        saying = threads.start(say)
        assert [int(each) for each in far] == [*range(1000)]
        saying.result()
        far.disconnect()


@clause("BUS-SEC-1", "BUS-SEC-5")
@pytest.mark.parametrize("process", ["m", "slave"])
def test_a_process_of_this_machine_does_not_enter_as_one_of_another(
    alone: Alone, process: str
) -> None:
    """It would get the rights of another machine's process, in the place of its own."""
    queue, answer = alone.ask(DialInside(process), outside=False)

    assert "a process of this machine dials" in answer.refusal
    assert alone.vouched == []
    queue.disconnect()


@clause("BUS-ROUTE-16")
def test_a_gateway_is_asked_again_while_the_process_may_still_come(
    alone: Alone, own_run_directory: Path
) -> None:
    """Its master may be a new one, which it has not joined yet."""
    alone.absent = 2
    with BrokerManager() as elsewhere, Threads() as threads:
        near = client_of("ipc:///nowhere", Trust())
        dialling = threads.start(
            near.connect, alone.asker, f"{alone.outside.address}/slave"
        )
        slave = SocketQueueBroker(
            "slave", listen=f"ipc://{own_run_directory}/slave", manager=elsewhere
        )
        far = slave.accept(GATEWAY_PORT)
        assert msgspec.msgpack.decode(far.receive(), type=Vouch) == Vouch("")
        far.send(msgspec.msgpack.encode(Answer()))
        made = dialling.result()
        assert made is not None

        made.queue.send(b"frame")
        assert far.receive() == b"frame"
        made.queue.disconnect()
        far.disconnect()


@clause("BUS-ROUTE-16")
def test_a_master_that_passes_on_shorter_frames_is_named(
    alone: Alone, own_run_directory: Path
) -> None:
    """Else a long frame would end the link again and again."""
    near = client_of(alone.address, Trust(), frame_bytes_max=1001)
    with BrokerManager() as elsewhere, Threads() as threads:
        slave = SocketQueueBroker(
            "slave", listen=f"ipc://{own_run_directory}/slave", manager=elsewhere
        )
        accepting = threads.start(slave.accept, GATEWAY_PORT)
        dialling = threads.start(
            near.connect, alone.asker, f"{alone.outside.address}/slave"
        )
        far = accepting.result()
        far.receive()
        far.send(msgspec.msgpack.encode(Answer()))

        with pytest.raises(PermissionError, match="at most 1000 bytes, not 1001"):
            dialling.result()
        far.disconnect()
