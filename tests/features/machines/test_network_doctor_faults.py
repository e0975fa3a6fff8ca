"""``bus doctor --network``: each fault of another machine is named, with its remedy."""

from __future__ import annotations

import datetime as dt
import shutil
import socket
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from bus.features.machines import certificates
from bus.features.machines.authority import Authority
from bus.features.machines.machine_keys import MachineKeys
from bus.features.machines.probe import Fault
from bus.kernel.wire import (
    FRAME_BYTES_MAX,
    VERSIONS,
    Hello,
    Reason,
    Refused,
    Welcome,
    decode,
    encode,
)
from bus.process.link_helpers import PORT
from queuebroker._net import unused_port
from queuebroker.errors import QueueBrokerError
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import SocketQueueBroker
from specs.clauses import clause
from tests.features.machines.findings import diagnosis, failure, findings, is_fault
from tests.kit.identities import identity
from tests.kit.site import HERE, THERE, Site
from tests.process.real import Far
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus.kernel.wire import Frame

DAY = dt.timedelta(days=1)


@contextmanager
def planted(keys: Path, *answers: Frame) -> Iterator[int]:
    """Listen as the master of a machine, answer one HELLO, and yield the port.

    keys: the folder of keys of that machine. answers: the frames sent in reply.
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
            return  # the doctor has closed the connection

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


def refusal(reason: Reason, machine: str = THERE) -> Refused:
    """Return the REFUSED frame of a machine."""
    return Refused(reason=reason, versions=(8, 9), machine=machine)


def dated(
    site: Site, machine: str, shift: dt.timedelta, patch: pytest.MonkeyPatch
) -> Path:
    """Issue keys that are valid for one day, which begins earlier or later than now."""
    then = dt.datetime.now(tz=dt.UTC) + shift
    with patch.context() as patched:
        patched.setattr(certificates, "_now", lambda: then)
        return site.authority.issue(machine, site.folder / f"{machine} dated", days=1)


# The faults of a trial, in the order of its steps.


@clause("BUS-DISC-14")
def test_a_closed_port_is_named(site: Site) -> None:
    step, failed = diagnosis(site, unused_port())

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
    """The right authority has issued its keys, but it trusts another authority."""
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
    """A peer may claim to be another machine, and so may this machine."""
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
    assert own["fact"] == (
        f"the certificate names machine {THERE}, --machine names {HERE}"
    )
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
    with planted(keys, refusal(reason)) as port:
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
