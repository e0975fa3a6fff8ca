"""``bus doctor --network``: each planted fault is named, with its remedy."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus.cli.network_doctor import _ADVICE
from bus.core.wire import (
    FRAME_BYTES_MAX,
    VERSIONS,
    Announcement,
    Hello,
    Identity,
    Reason,
    Refused,
    Role,
    Welcome,
    decode,
    encode,
    encode_announcement,
)
from bus.keys import certificates
from bus.keys.authority import Authority
from bus.keys.machine_keys import MachineKeys
from bus.links.link_pool import PORT
from bus.links.peer_probe import Fault
from queuebroker.errors import QueueBrokerError
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import SocketQueueBroker
from specs.clauses import clause
from tests.cli.verbs import MACHINE, verb
from tests.kit.site import HERE, THERE, Site
from tests.links.real import Far
from tests.network.conditions import Conditions
from tests.network.ethernet import Ethernet, ip, is_permitted
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus.core.wire import Frame

REFUSED = is_permitted()
in_namespaces = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
DAY = dt.timedelta(days=1)
Finding = dict[str, str]


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines with keys of one authority."""
    yield Site(tmp_path)
    shutil.rmtree(f"{own_run_directory}-{THERE}", ignore_errors=True)


def file_of(site: Site, **given: Any) -> Path:
    """Write the network file of the first machine; return its path."""
    whole = {
        "listen": f"127.0.0.1:{site.ports[HERE]}",
        "keys": str(site.network(HERE).keys),
    } | given
    path = site.folder / "network.toml"
    # JSON has the same texts, numbers and lists as TOML.
    lines = [
        f"{name} = {json.dumps(value)}\n"
        for name, value in whole.items()
        if value is not None
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def findings(site: Site, *words: str, **given: Any) -> list[Finding]:
    """Return the findings for a network of the first machine."""
    arguments = ("--network", str(file_of(site, **given)), "--json", *words)
    result = verb("doctor", *arguments)
    assert result.stderr == ""
    found: list[Finding] = json.loads(result.stdout)
    failed = any(each["state"] == "fail" for each in found)
    assert result.exit_code == int(failed)
    return found


def failure(found: list[Finding]) -> Finding:
    """Return the one finding that is a failure."""
    [failed] = [each for each in found if each["state"] == "fail"]
    return failed


def states(found: list[Finding], address: str) -> dict[str, str]:
    """Return the state of each step to an address."""
    place = f" {address}"
    return {
        each["what"].removesuffix(place): each["state"]
        for each in found
        if each["what"].endswith(place) and not each["what"].startswith("listen")
    }


def diagnosis(site: Site, port: int, **given: Any) -> tuple[str, Finding]:
    """Return the step to a peer that fails, and its finding."""
    address = f"127.0.0.1:{port}"
    found = findings(site, peers=[address], **given)
    failed = failure(found)
    step = failed["what"].removesuffix(f" {address}")
    tried = {"tcp": ["tcp"], "tls": ["tcp", "tls"], "bus": ["tcp", "tls", "bus"]}
    expected = dict.fromkeys(tried[step], "ok") | {step: "fail"}
    assert states(found, address) == expected
    return step, failed


def is_fault(failed: Finding, fault: Fault) -> bool:
    """Return True if the remedy is the one for a fault."""
    return failed["do"] == _ADVICE[fault]


@contextmanager
def planted(keys: Path, *answers: Frame) -> Iterator[int]:
    """Listen as a machine, and answer its first HELLO with some frames.

    Yields the port.
    """
    got: list[object] = []

    def serve(broker: SocketQueueBroker) -> None:
        try:
            with broker.accept(PORT) as queue:
                got.append(decode(queue.receive(timeout=LIMIT_S)))
                for each in answers:
                    queue.send(encode(each))
                queue.receive(timeout=LIMIT_S)
        except QueueBrokerError:
            return  # the other side has closed

    with SocketQueueBroker(
        "planted",
        listen="tls://127.0.0.1:0",
        tls=MachineKeys(keys).tls,
        manager=BrokerManager(),
    ) as broker:
        helper = threading.Thread(target=serve, args=(broker,))
        helper.start()
        assert broker.address is not None
        yield int(broker.address.rpartition(":")[2])
    helper.join(LIMIT_S)
    assert not answers or isinstance(got[0], Hello)


def identity(machine: str) -> Identity:
    """Return the identity of a master."""
    return Identity(
        bus="bus1",
        machine=machine,
        machine_id="other",
        process="planted",
        process_id=1,
        incarnation=1,
        role=Role.MASTER,
    )


def refused(reason: Reason, machine: str = THERE) -> Refused:
    """Return the refusal of a machine."""
    return Refused(reason=reason, versions=(8, 9), machine=machine)


def dated(
    site: Site, machine: str, shift: dt.timedelta, patch: pytest.MonkeyPatch
) -> Path:
    """Make keys of a machine, for one day that begins earlier or later than now."""
    then = dt.datetime.now(tz=dt.UTC) + shift
    with patch.context() as patched:
        patched.setattr(certificates, "_now", lambda: then)
        return site.authority.issue(machine, site.folder / f"{machine} dated", days=1)


# A machine that can be linked.


@clause("BUS-DISC-14")
def test_a_good_peer_passes_each_step_and_is_not_disturbed(site: Site) -> None:
    address = f"127.0.0.1:{site.ports[THERE]}"
    with site.there("far", network=site.network(THERE, peers=[])) as far:
        found = findings(site, peers=[address])
        # It has got a process of this machine, and no master.
        peers = far("[each.key[0] for each in bus._node.comm.remote.topology.joined()]")

    assert states(found, address) == dict.fromkeys(("tcp", "tls", "bus"), "ok")
    assert found[-1]["fact"] == f"machine {THERE} accepts this one"
    assert peers == []


@clause("BUS-DISC-14")
@pytest.mark.parametrize("machine", [THERE, HERE])
def test_without_keys_the_machine_is_the_one_that_the_peer_states(
    site: Site, machine: str
) -> None:
    """It may be another one of the same name."""
    address = f"127.0.0.1:{site.ports[THERE]}"
    network = site.network(THERE, peers=[], keys=None)
    with Far("far", role="master", machine=machine, network=network) as far:
        far.started()
        found = findings(site, peers=[address], keys=None)

    last = found[-1]
    expected = "ok" if machine == THERE else "fail"
    assert states(found, address) == {"tcp": "ok", "tls": "ok", "bus": expected}
    assert last["fact"] == (
        f"machine {THERE} accepts this one"
        if machine == THERE
        else f"the machine there has the name of this one, {HERE}"
    )


@clause("BUS-DISC-14")
def test_the_address_of_this_machine_itself_is_not_tried(site: Site) -> None:
    own = f"127.0.0.1:{site.ports[HERE]}"

    found = findings(site, peers=[own])

    assert states(found, own) == {}
    assert failure(found)["what"] == "other machines"


# The twelve faults.


@clause("BUS-DISC-14")
def test_a_closed_port_is_named(site: Site) -> None:
    step, failed = diagnosis(site, site.free_port())

    assert step == "tcp"
    assert "connection refused" in failed["fact"]
    assert is_fault(failed, Fault.PORT_CLOSED)


@clause("BUS-DISC-14")
def test_packets_that_are_dropped_are_named(site: Site) -> None:
    """The kernel drops a connect to a listener whose backlog is full."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        port = listener.getsockname()[1]
        address = f"127.0.0.1:{port}"
        failed = failure(findings(site, "--timeout", "0.5", peers=[address]))

    assert (failed["what"], failed["fact"]) == (
        f"tcp {address}",
        "no answer within 0.5 s",
    )
    assert is_fault(failed, Fault.DROPPED)


@clause("BUS-DISC-14", "BUS-SEC-5")
def test_another_authority_is_named(site: Site, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other")
    with planted(other.issue(THERE, tmp_path / "stranger", days=1)) as port:
        step, failed = diagnosis(site, port)

    assert step == "tls"
    assert is_fault(failed, Fault.UNTRUSTED)


@clause("BUS-DISC-14", "BUS-SEC-5")
def test_a_peer_that_does_not_trust_this_machine_is_named(
    site: Site, tmp_path: Path
) -> None:
    """It has issued its own keys, but trusts another authority for its peers."""
    keys = site.issue("attic")
    Authority.create(tmp_path / "other").issue("x", tmp_path / "x", days=1)
    shutil.copy(tmp_path / "x" / "trusted.pem", keys / "trusted.pem")
    with planted(keys) as port:
        step, failed = diagnosis(site, port)

    assert (step, failed["fact"]) == ("tls", "the other side reports: unknown ca")
    assert is_fault(failed, Fault.UNTRUSTED)


@clause("BUS-DISC-14", "BUS-SEC-5")
@pytest.mark.parametrize(
    ("shift", "words", "fault"),
    [
        (-9 * DAY, "certificate has expired", Fault.EXPIRED),
        (9 * DAY, "certificate is not yet valid", Fault.NOT_YET_VALID),
    ],
)
def test_the_dates_of_a_certificate_are_checked_on_both_sides(
    site: Site,
    shift: dt.timedelta,
    words: str,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with planted(dated(site, THERE, shift, monkeypatch)) as port:
        step, failed = diagnosis(site, port)
    own = failure(findings(site, keys=str(dated(site, HERE, shift, monkeypatch))))

    assert (step, own["what"]) == ("tls", "keys")
    for each in (failed, own):
        assert words in each["fact"]
        assert is_fault(each, fault)


@clause("BUS-DISC-14", "BUS-SEC-5")
def test_another_machine_name_in_a_certificate_is_named(site: Site) -> None:
    """Of a peer that claims to be another machine, and of this machine itself."""
    welcome = Welcome(
        version=VERSIONS[1],
        identity=identity("attic"),
        message_bytes_max=FRAME_BYTES_MAX,
    )
    keys = site.network(THERE).keys
    assert keys is not None
    with planted(keys, welcome) as port:
        step, failed = diagnosis(site, port)
    own = failure(findings(site, keys=str(keys)))

    assert (step, failed["fact"]) == ("bus", f"machine {THERE} claims to be attic")
    assert own["fact"] == f"certified is machine {THERE}, --machine names {HERE}"
    for each in (failed, own):
        assert is_fault(each, Fault.MACHINE_NAME)


@clause("BUS-DISC-14", "OPEN-3")
def test_a_peer_with_the_name_of_this_machine_is_named(site: Site) -> None:
    with planted(site.issue(HERE)) as port:
        address = f"127.0.0.1:{port}"
        failed = failure(findings(site, peers=[address]))

    assert failed["what"] == f"bus {address}"
    assert failed["fact"] == f"the machine there has the name of this one, {HERE}"
    assert is_fault(failed, Fault.CONFLICT)


@clause("BUS-DISC-14")
@pytest.mark.parametrize(
    ("reason", "fact", "fault"),
    [
        (
            Reason.VERSION,
            "REFUSED: version: it has versions 8 to 9, this machine version 2",
            Fault.VERSION,
        ),
        (Reason.ACCESS, "REFUSED: access", Fault.ACCESS),
        (Reason.MACHINE_NAME, "REFUSED: machine-name", Fault.CONFLICT),
    ],
)
def test_a_refusal_is_named_by_its_reason(
    site: Site, reason: Reason, fact: str, fault: Fault
) -> None:
    keys = site.network(THERE).keys
    assert keys is not None
    with planted(keys, refused(reason)) as port:
        step, failed = diagnosis(site, port)

    assert (step, failed["fact"]) == ("bus", fact)
    assert is_fault(failed, fault)


@clause("BUS-DISC-14")
def test_another_bus_is_named(site: Site) -> None:
    network = site.network(THERE, peers=[])
    with Far("far", bus="bus2", machine=THERE, network=network) as far:
        far.started()
        step, failed = diagnosis(site, site.ports[THERE])

    assert (step, failed["fact"]) == ("bus", "REFUSED: bus")
    assert is_fault(failed, Fault.OTHER_BUS)


# Other services.


@clause("BUS-DISC-14")
def test_another_service_and_one_that_says_nothing_are_told_apart(site: Site) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        address = f"127.0.0.1:{port}"
        silent = failure(findings(site, "--timeout", "0.5", peers=[address]))

        def answer() -> None:
            made, _ = listener.accept()
            with made:
                made.sendall(b"220 mail.example ready\r\n")
                made.recv(1000)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        helper = threading.Thread(target=answer)
        helper.start()
        step, foreign = diagnosis(site, listener.getsockname()[1])
        helper.join()

    assert silent["what"] == f"tls {address}"
    assert is_fault(silent, Fault.SILENT)
    assert step == "tls"
    assert is_fault(foreign, Fault.NO_BUS)


# Announcements.


@contextmanager
def announced(site: Site, port: int, **given: Any) -> Iterator[None]:
    """Announce a machine again and again, as one that others do not accept."""
    keys = site.network(THERE).keys
    assert keys is not None
    key = given.pop("key", MachineKeys(keys).group_key)
    ends = threading.Event()

    def run() -> None:
        counter = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.bind(("127.0.0.1", 0))
            while not ends.wait(0.05):
                counter += 1
                whole: dict[str, Any] = {
                    "bus": "bus1",
                    "machine": THERE,
                    "machine_id": "other",
                    "instance": 1,
                    "counter": counter,
                    "versions": VERSIONS,
                    "host": "127.0.0.1",
                    "port": site.ports[THERE],
                } | given
                data = encode_announcement(Announcement(**whole), key)
                sender.sendto(data, ("127.255.255.255", port))

    helper = threading.Thread(target=run)
    helper.start()
    try:
        yield
    finally:
        ends.set()
        helper.join()


def udp_port() -> int:
    """Return a UDP port that is free at present."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@clause("BUS-DISC-14", "BUS-DISC-11")
@pytest.mark.parametrize(
    ("given", "state", "words", "fault"),
    [
        ({"bus": "bus2"}, "warn", "ignored: of another bus", Fault.OTHER_BUS),
        (
            {"versions": (8, 9)},
            "warn",
            "ignored: of another protocol version",
            Fault.VERSION,
        ),
        (
            {"key": b"k" * 32},
            "warn",
            "ignored: not signed with the group key",
            Fault.UNTRUSTED,
        ),
        (
            {"machine": HERE},
            "fail",
            f"another machine is named {HERE}: the one at tls://127.0.0.1:",
            Fault.CONFLICT,
        ),
    ],
)
def test_announcements_that_are_ignored_are_named_by_their_reason(
    site: Site, given: dict[str, Any], state: str, words: str, fault: Fault
) -> None:
    port = udp_port()
    with announced(site, port, **given):
        found = findings(site, discovery="host", discovery_port=port)

    [one] = [
        each
        for each in found
        if each["what"] == "announcements" and words in each["fact"]
    ]
    assert one["state"] == state
    assert is_fault(one, fault)


@clause("BUS-DISC-14", "BUS-SEC-6")
def test_a_found_machine_is_tried_and_must_be_the_announced_one(site: Site) -> None:
    port = udp_port()
    address = f"127.0.0.1:{site.ports[THERE]}"
    with (
        site.there("far", network=site.network(THERE, peers=[])),
        announced(site, port, machine="attic"),
    ):
        found = findings(site, discovery="host", discovery_port=port)

    assert states(found, address) == {"tcp": "ok", "tls": "fail"}
    failed = failure(found)
    assert failed["fact"] == f"machine attic is announced, {THERE} is certified there"
    assert is_fault(failed, Fault.MACHINE_NAME)


# This machine.


@clause("BUS-DISC-14")
def test_a_machine_that_runs_is_reported_so(site: Site) -> None:
    with Far("near", role="master", network=site.network(HERE)) as near:
        near.started()
        found = {each["what"]: each for each in findings(site)}

    assert "runs here" in found["bus bus1"]["fact"]
    listen = found[f"listen 127.0.0.1:{site.ports[HERE]}"]
    assert (listen["state"], listen["do"]) == ("ok", "")


@clause("BUS-DISC-14")
def test_an_address_in_use_or_of_another_host_is_named(site: Site) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.ports[HERE]))
        other.listen()
        used = findings(site)[2]
    foreign = findings(site, listen="192.0.2.1")[2]

    assert (used["state"], used["fact"]) == ("fail", "another process listens there")
    assert foreign["state"] == "fail"
    assert "cannot listen" in foreign["fact"]


@clause("BUS-DISC-14")
def test_keys_that_are_missing_are_named(site: Site, tmp_path: Path) -> None:
    failed = failure(findings(site, keys=str(tmp_path / "none")))

    assert failed["what"] == "keys"
    assert "bus keys issue" in failed["do"]


# In namespaces: hosts and routes that are missing.


@pytest.fixture
def ethernet() -> Iterator[Ethernet]:
    with Ethernet(["a", "b"], "10.83", seed=1) as made:
        yield made


def inside(ethernet: Ethernet, site: Site, **given: Any) -> list[Finding]:
    """Return the findings of the first machine of a network of namespaces."""
    path = file_of(site, listen=ethernet.address(0), **given)
    words = ("bus", "doctor", "--network", str(path), "--json", *MACHINE)
    done = subprocess.run(
        ["ip", "netns", "exec", ethernet.names[0], sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (1, "")
    found: list[Finding] = json.loads(done.stdout)
    return found


@in_namespaces
@clause("BUS-DISC-14")
def test_an_address_that_no_host_has_is_named(ethernet: Ethernet, site: Site) -> None:
    failed = failure(inside(ethernet, site, peers=["10.83.0.9"]))

    assert (failed["what"], failed["fact"]) == (
        "tcp 10.83.0.9:7400",
        "no route to host",
    )
    assert is_fault(failed, Fault.NO_HOST)


@in_namespaces
@clause("BUS-DISC-14")
def test_a_network_that_drops_all_packets_is_named(
    ethernet: Ethernet, site: Site
) -> None:
    """As a firewall does; the hardware address is known, so the host is not missing."""
    to, device = ethernet.address(1), ethernet.device(0)
    place = ("neigh", "add", to, "lladdr", "02:00:00:00:00:09", "dev", device)
    ip("-n", ethernet.names[0], *place)
    ethernet.impose(Conditions(cut=True))

    failed = failure(inside(ethernet, site, peers=[to]))

    assert (failed["what"], failed["fact"]) == (
        f"tcp {to}:7400",
        "no answer within 4 s",
    )
    assert is_fault(failed, Fault.DROPPED)


@in_namespaces
@clause("BUS-DISC-14", "BUS-DISC-2")
@pytest.mark.parametrize("scope", ["lan", "wan"])
def test_a_missing_route_for_announcements_is_named(
    ethernet: Ethernet, site: Site, scope: str
) -> None:
    ip("-n", ethernet.names[0], "link", "set", ethernet.device(0), "down")

    found = inside(ethernet, site, discovery=scope)

    [failed] = [
        each
        for each in found
        if each["what"] == "announcements" and each["state"] == "fail"
    ]
    assert failed["fact"].startswith("no route for broadcasts or multicasts: ")
