"""``python -m tests.kills.sweep --points 40``: kill -9 before each system call.

Random blows hit the states where a process spends most of its time. Here a process that
joins, and then works, is killed right before its N-th call of one kind, counted per
thread, for N = 1, 2, 3 and so on. So each of its first-time operations is interrupted
once. strace does that. The same invariants hold as after any other blow.

A kind of call is reported as used up if no process makes N of them; the process then
survives and shuts down in order.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from tests.kills.blow import Blow, renewed
from tests.kills.campaign import Campaign
from tests.kills.crew import NAMES, TASKS
from tests.kills.member import MemberError
from tests.kills.strike import IDLE
from tests.leaks import Snapshot
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kills.crew import Crew
    from tests.kills.member import Member

__all__ = ["CALLS", "main"]

CALLS: Final = (
    "connect",
    "sendto",
    "sendmsg",
    "recvfrom",
    "recvmsg",
    "close",
    "mmap",
    "futex",
)
# How long a process works after it has joined before its calls count as used up.
_WORKS_S: Final = 2.0
_ATTACHED_S: Final = 10.0
_LOOK_S: Final = 0.02


class _Point(Blow):
    """A blow struck by strace, at one call; `STATES` does not list it."""

    call: str = ""
    tracer: subprocess.Popen[bytes] | None = None

    def bring_about(self, crew: Crew) -> None:
        """Let the next life of a process join under strace, and wait for its death.

        Raises:
            _UsedUpError: it made fewer such calls.
        """
        self.victim = member = renewed(self.victim, crew)
        self.tracer = _attach(member, self.call, self.number)
        member.tell("join")
        try:
            crew.joined(member)
        except MemberError:
            return  # it is dead, or hangs: checked next
        deadline = monotonic() + _WORKS_S
        while member.alive:
            if monotonic() >= deadline:
                raise _UsedUpError
            member.answered(_LOOK_S)


class _UsedUpError(Exception):
    """The victim lives: it has made fewer such calls."""


def _attach(member: Member, call: str, number: int) -> subprocess.Popen[bytes]:
    """Let strace kill a process before a call; return strace once it is attached."""
    tracer = subprocess.Popen(
        [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:signal=SIGKILL:when={number}",
            "-p",
            str(member.pid),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status = Path(f"/proc/{member.pid}/status")
    until(
        lambda: f"TracerPid:\t{tracer.pid}" in status.read_text(encoding="ascii"),
        "strace is attached",
        limit_s=_ATTACHED_S,
    )
    return tracer


@contextmanager
def _traced(point: _Point) -> Iterator[None]:
    """End strace with the block; its process continues without it."""
    try:
        yield
    finally:
        if point.tracer is not None:
            point.tracer.kill()  # it may wait forever for a dead process
            point.tracer.wait()


def _strike(bus: Campaign, call: str, number: int, chance: random.Random) -> bool:
    """Strike at one point; return False if the point does not exist.

    Raises:
        AssertionError: an invariant is violated after the blow.
    """
    crew = bus.crew
    crew.settle(chance.choice(crew.hosts()))
    for each in crew.members():
        each.do("go", TASKS)
    victim = crew.living[chance.choice(NAMES[1:])]
    role = "client" if victim.client else "slave"
    point = _Point(number, IDLE, signal.SIGKILL, chance, victim, role)
    point.call = point.place = call
    with _traced(point):
        try:
            print(bus.killed(point), flush=True)
        except _UsedUpError:
            return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.sweep")
    parser.add_argument("--points", type=int, default=40, help="calls of each kind")
    parser.add_argument("--calls", nargs="+", choices=CALLS, default=CALLS)
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    options = parser.parse_args(arguments)
    if shutil.which("strace") is None:
        print("strace is not installed: apt-get install strace", file=sys.stderr)
        return 4
    print(f"seed {options.seed}", flush=True)
    before = Snapshot.take()
    folder = Path(tempfile.mkdtemp(prefix="sweep-"))
    reached = dict.fromkeys(options.calls, 0)
    try:
        with Campaign(folder, options.seed) as bus:
            for call in options.calls:
                for number in range(1, options.points + 1):
                    chance = random.Random(f"{options.seed}/{call}/{number}")
                    if not _strike(bus, call, number, chance):
                        print(f"{call}: used up before number {number}", flush=True)
                        break
                    reached[call] = number
            bus.end()
        left = before.leaks()
        assert not left, f"left behind: {left}"
    except AssertionError as error:
        print(f"seed {options.seed}: {error}")
        print(f"the notes of each process are in {folder}", flush=True)
        return 1
    for call, count in reached.items():
        print(f"{call:<10}{count:>4} points")
    print(f"{sum(reached.values())} killed: nobody hung, nothing came twice")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
