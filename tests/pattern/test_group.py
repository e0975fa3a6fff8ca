"""`Group`: a multicast group as one peer, over the loopback interface (BP-15)."""

from __future__ import annotations

import errno
import ipaddress
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.pattern import BusSocket, Drop, DropReason, RawBusSocket, device
from bus.pattern.node import Node
from queuebroker import _net, _sync
from queuebroker._platform import SYSTEM
from queuebroker.errors import BrokerClosedError
from queuebroker.sockets.driver import Driver
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, all_of, fresh_url, queued
from tests.strikes import everywhere
from tests.support import until

if TYPE_CHECKING:
    from contextlib import ExitStack

    from bus.pattern import Group
    from tests.strikes import Blow

HERE = "127.0.0.1"


@pytest.fixture
def url() -> str:
    """A group that no other test uses, by its port."""
    return f"udp-mcast://239.255.77.77:{_net.unused_port(HERE, datagrams=True)}"


@clause("BP-15")
def test_a_node_gets_the_datagrams_of_all_others_and_not_its_own(
    url: str, stack: ExitStack
) -> None:
    """All have the same address: only the node ids differ."""
    nodes = [stack.enter_context(BusSocket()) for _ in range(3)]
    for node in nodes:
        node.join_group(url, source=HERE)
    for number, node in enumerate(nodes):
        node.send(b"%d" % number)
        for other in nodes:
            if other is not node:
                assert other.receive(LIMIT_S) == b"%d" % number
    assert [queued(node) for node in nodes] == [0, 0, 0]
    assert [node.stats.dropped for node in nodes] == [{}, {}, {}]


def _link_local() -> tuple[str, str]:
    """Return an IPv6 address that holds on one link, and the name of its interface."""
    for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
        address, _, _, scope, flags, name = line.split()
        if int(scope, 16) == 0x20 and not int(flags, 16) & 0x40:  # not tentative
            return str(ipaddress.IPv6Address(bytes.fromhex(address))), name
    pytest.skip("no interface has an IPv6 address of its link")


@clause("BP-15")
@pytest.mark.parametrize("where", ["group", "source", "both"])
def test_a_group_of_one_link_is_joined_at_the_interface_that_is_named(
    where: str, stack: ExitStack
) -> None:
    address, name = _link_local()
    group, source = {
        "group": (f"ff02::4d4d%{name}", ""),
        "source": ("ff02::4d4d", f"{address}%{name}"),
        "both": (f"ff02::4d4d%{name}", address),
    }[where]
    url = f"udp-mcast://[{group}]:{_net.unused_port(HERE, datagrams=True)}"
    nodes = [stack.enter_context(BusSocket()) for _ in range(2)]
    for node in nodes:
        node.join_group(url, source=source)

    nodes[0].send(b"on this link")

    assert nodes[1].receive(LIMIT_S) == b"on this link"


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("[ff02::7]", "the group needs an interface: ff02::7%NAME"),
        ("[ff02::7%no-such]", "no interface is called 'no-such'"),
    ],
)
def test_a_group_of_one_link_without_its_interface_is_one_clear_error(
    group: str, wanted: str
) -> None:
    with (
        BusSocket() as node,
        pytest.raises(OSError, match=f"cannot join .*: {wanted}") as caught,
    ):
        node.join_group(f"udp-mcast://{group}:4000")
    assert caught.value.errno in {errno.EINVAL, errno.ENODEV}


@clause("BP-15")
def test_a_message_above_one_datagram_is_dropped_and_counted(
    url: str, stack: ExitStack
) -> None:
    first, second = (stack.enter_context(BusSocket()) for _ in range(2))
    group = first.join_group(url, source=HERE)
    second.join_group(url, source=HERE)
    most = group.message_bytes_max
    assert 1400 < most < 1472
    first.send(bytes(most + 1))
    first.send(bytes(most))

    assert all_of(second, 1) == [bytes(most)]
    assert first.stats.dropped == {DropReason.TOO_LONG: 1}


@pytest.mark.skipif(
    SYSTEM != "linux", reason="needs a count of lost datagrams, which only Linux has"
)
@clause("BP-15")
def test_datagrams_for_which_the_system_has_no_room_are_counted(
    url: str, stack: ExitStack
) -> None:
    drops: list[Drop] = []
    first = stack.enter_context(BusSocket())
    second = stack.enter_context(BusSocket(on_drop=drops.append))
    for node in (first, second):
        node.join_group(url, source=HERE)
    sent = 2000
    with second._node.lock:  # its driver can hand over no datagram meanwhile
        for _ in range(sent):
            first.send(bytes(1400))

    def account() -> int:
        stats = second.stats
        return stats.received_queued + sum(stats.dropped.values())

    until(lambda: account() == sent, "each datagram is queued, or counted")
    dropped = second.stats.dropped
    assert dropped[DropReason.SYSTEM] > 0
    counted = sum(each.count for each in drops if each.reason is DropReason.SYSTEM)
    assert counted == dropped[DropReason.SYSTEM]


@clause("BP-15", "BP-16")
def test_a_group_and_a_connection_to_the_same_node_deliver_once(
    url: str, tmp_path: Path, stack: ExitStack
) -> None:
    first, second = (stack.enter_context(BusSocket()) for _ in range(2))
    for node in (first, second):
        node.join_group(url, source=HERE)
    second.dial(first.listen(fresh_url("local", tmp_path)).url)
    for node in (first, second):
        assert node.wait_for_peers(2, LIMIT_S)
    first.send(b"once")

    assert second.receive(LIMIT_S) == b"once"
    until(
        lambda: DropReason.DUPLICATE in second.stats.dropped,
        "the other copy has arrived",
    )
    assert not queued(second)


@clause("BP-12", "BP-15")
def test_a_device_joins_a_group_and_a_connection(
    url: str, tmp_path: Path, stack: ExitStack
) -> None:
    member, leaf = (stack.enter_context(BusSocket()) for _ in range(2))
    sides = [stack.enter_context(RawBusSocket()) for _ in range(2)]
    member.join_group(url, source=HERE)
    sides[0].join_group(url, source=HERE)
    leaf.dial(sides[1].listen(fresh_url("local", tmp_path)).url)
    assert leaf.wait_for_peers(1, LIMIT_S)
    stack.enter_context(device(*sides))
    for count in range(20):
        member.send(b"%d" % count)
        assert leaf.receive(LIMIT_S) == b"%d" % count
        leaf.send(b"back")
        assert member.receive(LIMIT_S) == b"back"


@clause("BP-15")
@pytest.mark.parametrize(
    "datagram", [b"", b"x", bytes(12), b"QBp\1" + bytes(8), b"QBp\1" + bytes(26)]
)
def test_datagrams_of_strangers_are_ignored(
    url: str, stack: ExitStack, datagram: bytes
) -> None:
    first, second = (stack.enter_context(BusSocket()) for _ in range(2))
    for node in (first, second):
        node.join_group(url, source=HERE)
    _, _, place = url.partition("://")
    host, _, port = place.partition(":")
    stranger = _net.join_group(host, int(port), HERE)
    stack.callback(stranger.close)
    stranger.send(datagram)
    first.send(b"after")

    assert all_of(second, 1) == [b"after"]


# An interrupt just behind a call that opens a socket leaves it to its finalizer.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@clause("BP-15")
def test_an_interrupted_join_leaves_a_socket_without_the_group(url: str) -> None:
    def case(struck: Blow) -> None:
        with BusSocket() as node:
            joined: list[Group] = []
            struck(lambda: joined.append(node.join_group(url, source=HERE)))
            for pipe in node._node.pipes:  # only the caller was interrupted
                carrier: Any = pipe.carrier
                is_idle = threading.Event()
                carrier._driver.call(is_idle.set)
                assert is_idle.wait(LIMIT_S)
                assert not carrier._finished
            node.send(b"x")
            assert node.drain(LIMIT_S)
        assert not node._node.peers

    everywhere(case, packages=[bus])


def test_a_closed_group_is_no_peer(url: str, stack: ExitStack) -> None:
    node = stack.enter_context(BusSocket())
    group = node.join_group(url, source=HERE)
    assert node.wait_for_peers(1, 0)
    group.close()
    group.close()
    assert not node.stats.peers
    for wrong in ("tcp://127.0.0.1:1", "ipc:///x"):
        with pytest.raises(ValueError, match="it is no udp-mcast address"):
            node.join_group(wrong)
    for act in (node.listen, node.dial):
        with pytest.raises(ValueError, match="call join_group"):
            act(url)
    with pytest.raises(ValueError, match=r"^cannot dial udp-mcast://"):
        node.dial(url)
    with pytest.raises(TypeError, match="source must be a str, got NoneType"):
        node.join_group(url, source=None)  # type: ignore[arg-type]
    node.close()
    with pytest.raises(BrokerClosedError, match="cannot join a group"):
        node.join_group(url, source=HERE)


def test_a_group_that_the_system_refuses_is_named(
    url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = stack.enter_context(BusSocket())
    with pytest.raises(OSError, match=f"cannot join {url} by 192.0.2.1: .*assign"):
        node.join_group(url, source="192.0.2.1")  # an address of no host (RFC 5737)

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(_net, "join_group", refuse)
    with pytest.raises(OSError, match=f"cannot join {url}: Invalid") as caught:
        node.join_group(url)
    assert caught.value.errno == errno.EINVAL


@clause("BP-4")
def test_a_join_that_fails_reports_drops_without_the_lock(
    url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def note(_: Drop) -> None:
        held.append(node._node.lock._is_owned())  # type: ignore[attr-defined]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    node = stack.enter_context(BusSocket(on_drop=note))
    node.join_group(url, source=HERE).close()  # the driver runs
    # As if another thread had counted a drop, and not reported it yet.
    with node._node.lock:
        node._node.ledger.add_locked(None, DropReason.NO_PEER)
    monkeypatch.setattr(Driver, "register", refuse)
    with pytest.raises(OSError, match="No space left"):
        node.join_group(url, source=HERE)
    assert held == [False]
    assert not node.stats.peers


def test_a_group_that_is_joined_while_its_socket_closes_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = BusSocket()
    add_pipe = Node.add_pipe

    def closed_meanwhile(self: Node, *args: Any) -> Any:
        pipe = add_pipe(self, *args)
        closing = _sync.Thread(target=self.close)
        closing.start()
        _sync.join(closing, 0.05)
        return pipe

    monkeypatch.setattr(Node, "add_pipe", closed_meanwhile)
    node.join_group("udp-mcast://239.255.1.1:9999", source="127.0.0.1")
    until(lambda: not node._node.peers, "the group is closed")
    assert node.stats.peers == ()
