"""`Ethernet`: a switch in user space, with one wire to and from each machine.

Each machine is a network namespace with one TAP device. Rejected: the network emulation
of the kernel, which some systems lack, and whose faults cannot be drawn from a seed.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

from queuebroker._files import fcntl
from tests.network.conditions import GOOD, Conditions
from tests.network.wire import Wire

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Ethernet", "ip", "refusal_reason"]

_TUNSETIFF: Final = 0x400454CA
_TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000
_FRAME_BYTES_MAX: Final = 65_536
_ADDRESS: Final = 6  # length of a hardware address, in bytes
_FRAMES_MAX: Final = 64  # read from one machine before the next machine


def ip(*words: str) -> None:
    """Run ``ip`` with some arguments.

    Raises:
        RuntimeError: the command fails; the text contains its stderr.
    """
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def refusal_reason() -> str:
    """Return the reason why this process cannot create namespaces; "" if it can."""
    if fcntl is None:
        return "needs network namespaces, which Windows lacks"
    if os.geteuid():
        return "only root can create network namespaces"
    if not os.path.exists("/dev/net/tun"):
        return "this system has no TUN devices"
    name = f"probe{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (RuntimeError, FileNotFoundError) as error:
        return f"network namespaces are not permitted here: {error}"
    return ""


class Ethernet:
    """A context manager: the namespaces exist, and the switch runs, within its block.

    Args:
        machines: the names of the machines, which the names of their namespaces begin
            with.
        subnet: the first two bytes of the addresses, such as ``10.77``.
        seed: the source of all faults.

    Lock: ``_lock`` guards the conditions and the wires.
    """

    def __init__(self, machines: list[str], subnet: str, seed: int) -> None:
        # Unique names, since several tests may run at once.
        self.names: Final = [f"{each}-{os.getpid()}" for each in machines]
        self._subnet: Final = subnet
        self._descriptors: Final[list[int]] = []
        self._made: Final[list[str]] = []
        self._lock: Final = threading.Lock()
        # One wire for each direction of a pair: faults may be one-way.
        pairs = itertools.permutations(range(len(machines)), 2)
        self._wires: Final = {pair: Wire(Random(f"{seed}/{pair}")) for pair in pairs}
        self._in_flight: Final[list[tuple[float, int, int, bytes]]] = []
        self._order: Final = itertools.count()
        self._wake: Final = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = False
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def address(self, number: int, version: int = 4) -> str:
        """Return the IP address of a machine."""
        if version == 6:
            return f"fd00:78::{number + 1:x}"
        return f"{self._subnet}.0.{number + 1}"

    def __enter__(self) -> Self:
        try:
            for number, name in enumerate(self.names):
                self._connect(number, name)
        except BaseException:
            self.__exit__()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        for each in (*self._descriptors, self._wake):
            os.close(each)
        for name in self._made:
            ip("netns", "del", name)

    def _connect(self, number: int, name: str) -> None:
        """Create a namespace whose only connection is a TAP device of this process."""
        device = self.device(number)
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        request = struct.pack("16sH22x", device.encode(), _TAP_WITHOUT_HEADER)
        fcntl.ioctl(descriptor, _TUNSETIFF, request)
        ip("netns", "add", name)
        self._made.append(name)
        ip("link", "set", device, "netns", name)
        # `brd +`: the broadcast address of the subnet.
        place = f"{self.address(number)}/16"
        ip("-n", name, "addr", "add", place, "brd", "+", "dev", device)
        six = f"{self.address(number, 6)}/64"
        ip("-n", name, "addr", "add", six, "dev", device, "nodad")
        ip("-n", name, "link", "set", device, "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "default", "dev", device)

    def device(self, number: int) -> str:
        """Return the name of a machine's network device."""
        return f"t{os.getpid() % 10**7}n{number}"

    # Faults.

    def impose(
        self, conditions: Conditions, *, of: int | None = None, to: int | None = None
    ) -> None:
        """Impose conditions on all wires, or on those from or to one machine."""
        with self._lock:
            for (sender, receiver), wire in self._wires.items():
                if of in {None, sender} and to in {None, receiver}:
                    wire.conditions = conditions

    def partition(self, some: set[int]) -> None:
        """Cut the wires between some machines and all others."""
        with self._lock:
            for (sender, receiver), wire in self._wires.items():
                cut = (sender in some) is not (receiver in some)
                wire.conditions = Conditions(cut=True) if cut else GOOD

    def counts(self) -> dict[str, int]:
        """Return the number of frames by outcome."""
        with self._lock:
            total: dict[str, int] = {}
            for wire in self._wires.values():
                for fate, count in wire.counts.items():
                    total[fate] = total.get(fate, 0) + count
            return total

    # The switch.

    def _run(self) -> None:
        poller = select.epoll()
        poller.register(self._wake, select.EPOLLIN)
        numbers = {each: number for number, each in enumerate(self._descriptors)}
        for each in self._descriptors:
            poller.register(each, select.EPOLLIN)
        known: dict[bytes, int] = {}
        while not self._stopping:
            wait_s = -1.0
            if self._in_flight:
                wait_s = max(0.0, self._in_flight[0][0] - monotonic())
            for descriptor, _ in poller.poll(wait_s):
                if descriptor != self._wake:
                    self._read(descriptor, numbers[descriptor], known)
            self._deliver(monotonic())
        poller.close()

    def _read(self, descriptor: int, sender: int, known: dict[bytes, int]) -> None:
        for _ in range(_FRAMES_MAX):
            try:
                frame = os.read(descriptor, _FRAME_BYTES_MAX)
            except (BlockingIOError, OSError):
                return
            to, source = frame[:_ADDRESS], frame[_ADDRESS : 2 * _ADDRESS]
            known[source] = sender
            receiver = known.get(to)
            # A broadcast, or an address that has not sent yet, goes to all machines.
            machines = range(len(self._descriptors))
            receivers = machines if receiver is None else (receiver,)
            now = monotonic()
            for each in receivers:
                if each != sender:
                    self._forward(sender, each, frame, now)

    def _forward(self, sender: int, receiver: int, frame: bytes, now: float) -> None:
        with self._lock:
            arrivals = self._wires[sender, receiver].arrivals(len(frame), now)
        for at in arrivals:
            one = (at, next(self._order), receiver, frame)
            heapq.heappush(self._in_flight, one)

    def _deliver(self, now: float) -> None:
        while self._in_flight and self._in_flight[0][0] <= now:
            _, _, receiver, frame = heapq.heappop(self._in_flight)
            try:
                os.write(self._descriptors[receiver], frame)
            except OSError:
                continue  # the device is down, or its queue is full: the frame is lost
