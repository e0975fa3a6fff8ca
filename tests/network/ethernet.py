"""`Ethernet`: a switch in user space, with one wire to and from each machine.

Each machine is a network namespace with one TAP device. The kernel's own network
emulation is not available everywhere, and draws its faults from no seed.
"""

from __future__ import annotations

import fcntl
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

from tests.network.conditions import GOOD, Conditions
from tests.network.wire import Wire

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Ethernet", "ip", "is_permitted"]

_TUNSETIFF: Final = 0x400454CA
_TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000
_FRAME_BYTES_MAX: Final = 65_536
_ADDRESS: Final = 6  # bytes of a hardware address
_FRAMES_MAX: Final = 64  # read from one machine before the others


def ip(*words: str) -> None:
    """Run ``ip`` with some arguments.

    Raises:
        RuntimeError: it fails; the text contains its stderr.
    """
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def is_permitted() -> str:
    """Return why this process cannot make namespaces; "" if it can."""
    if os.geteuid():
        return "only root can make network namespaces"
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
    """A context manager: the switch runs, and the namespaces exist, within the block.

    Args:
        machines: the names of the machines; those of their namespaces begin so.
        subnet: the first two bytes of the addresses, such as ``10.77``.
        seed: the source of all faults.

    Lock: ``_lock`` guards the conditions and the wires.
    """

    def __init__(self, machines: list[str], subnet: str, seed: int) -> None:
        # Unique, since several tests may run at once.
        self.names: Final = [f"{each}-{os.getpid()}" for each in machines]
        self._subnet: Final = subnet
        self._descriptors: Final[list[int]] = []
        self._made: Final[list[str]] = []
        self._lock: Final = threading.Lock()
        # One wire for each ordered pair: faults may be one-way.
        pairs = itertools.permutations(range(len(machines)), 2)
        self._wires: Final = {pair: Wire(Random(f"{seed}/{pair}")) for pair in pairs}
        self._under_way: Final[list[tuple[float, int, int, bytes]]] = []
        self._order: Final = itertools.count()
        self._wake: Final = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ends = False
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
        self._ends = True
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        for each in (*self._descriptors, self._wake):
            os.close(each)
        for name in self._made:
            ip("netns", "del", name)

    def _connect(self, number: int, name: str) -> None:
        """Make a namespace whose only way out is a TAP device of this process."""
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

    def part(self, some: set[int]) -> None:
        """Cut some machines from all others."""
        with self._lock:
            for (sender, receiver), wire in self._wires.items():
                cut = (sender in some) is not (receiver in some)
                wire.conditions = Conditions(cut=True) if cut else GOOD

    def counted(self) -> dict[str, int]:
        """Return the number of frames by outcome."""
        with self._lock:
            total: dict[str, int] = {}
            for wire in self._wires.values():
                for fate, count in wire.counted.items():
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
        while not self._ends:
            wait_s = -1.0
            if self._under_way:
                wait_s = max(0.0, self._under_way[0][0] - monotonic())
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
            everybody = range(len(self._descriptors))
            receivers = everybody if receiver is None else (receiver,)
            now = monotonic()
            for each in receivers:
                if each != sender:
                    self._forward(sender, each, frame, now)

    def _forward(self, sender: int, receiver: int, frame: bytes, now: float) -> None:
        with self._lock:
            arrivals = self._wires[sender, receiver].arrivals(len(frame), now)
        for at in arrivals:
            one = (at, next(self._order), receiver, frame)
            heapq.heappush(self._under_way, one)

    def _deliver(self, now: float) -> None:
        while self._under_way and self._under_way[0][0] <= now:
            _, _, receiver, frame = heapq.heappop(self._under_way)
            try:
                os.write(self._descriptors[receiver], frame)
            except OSError:
                continue  # its device is down, or its queue is full: it is lost
