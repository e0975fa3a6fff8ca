"""The switch between namespaces: the frames that it forwards and drops."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.network.conditions import GOOD, Conditions
from tests.network.ethernet import Ethernet, refusal_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED = refusal_reason()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)

COUNT = 300

# Receives datagrams until none arrives for 3 s; then prints their number, the number of
# distinct ones, and whether they were in order.
RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(("", 9)); s.settimeout(3.0)
print("ready", flush=True)
found = []
try:
    while True:
        found.append(int(s.recv(9)))
except TimeoutError:
    print(len(found), len(set(found)), found == sorted(found), flush=True)
"""
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for n in range(int(sys.argv[2])):
    s.sendto(b"%d" % n, (sys.argv[1], 9))
    time.sleep(0.002)
"""


@pytest.fixture
def ethernet() -> Iterator[Ethernet]:
    with Ethernet(["a", "b", "c"], "10.79", seed=1) as made:
        yield made


def start(name: str, program: str, *words: str) -> subprocess.Popen[str]:
    """Start a program in a namespace."""
    return subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        text=True,
    )


def send(ethernet: Ethernet, to: str, *receivers: int) -> list[list[str]]:
    """Send datagrams from the first machine; return the report of each receiver."""
    listening = [start(ethernet.names[each], RECEIVE) for each in receivers]
    for each in listening:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    with start(ethernet.names[0], SEND, to, str(COUNT)) as sending:
        assert sending.wait(60) == 0
    return [each.communicate(timeout=60)[0].split() for each in listening]


@pytest.mark.deep
def test_a_good_network_delivers_all_frames_in_order(ethernet: Ethernet) -> None:
    [one] = send(ethernet, ethernet.address(1), 1)
    assert one == [str(COUNT), str(COUNT), "True"]


@pytest.mark.deep
def test_a_broadcast_reaches_each_other_machine(ethernet: Ethernet) -> None:
    assert (
        send(ethernet, "10.79.255.255", 1, 2) == [[str(COUNT), str(COUNT), "True"]] * 2
    )


@pytest.mark.deep
def test_a_bad_network_loses_duplicates_and_reorders_frames(ethernet: Ethernet) -> None:
    # First without faults, so that the kernel resolves the hardware address.
    send(ethernet, ethernet.address(1), 1)
    ethernet.impose(Conditions(loss=0.3, duplication=0.1, reordering=0.2), to=1)
    [[arrived, distinct, in_order]] = send(ethernet, ethernet.address(1), 1)
    assert 0.55 * COUNT < int(distinct) < 0.85 * COUNT
    assert int(arrived) > int(distinct)
    assert in_order == "False"


@pytest.mark.deep
def test_a_cut_wire_leaves_all_other_wires_intact(ethernet: Ethernet) -> None:
    ethernet.impose(Conditions(cut=True), of=0, to=1)
    first, second = send(ethernet, "10.79.255.255", 1, 2)
    assert (first[0], second[0]) == ("0", str(COUNT))
    ethernet.impose(GOOD)
    assert send(ethernet, "10.79.255.255", 1)[0][0] == str(COUNT)
