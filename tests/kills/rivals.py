"""``python -m tests.kills.rivals iceoryx2 --count 50``: the same kills elsewhere.

One process sends long messages through the shared memory of another library, three
receive them and hold some, and one after another is killed at a random moment. Prints
the files that remain, their bytes, and the messages altered while they were held. Then
it removes the files, which have names of their own.

The libraries are no requirement of the project: ``pip install iceoryx2 kickmsg``.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.metadata
import os
import random
import secrets
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.kills.long_messages import is_whole, payload
from tests.processes import import_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["main"]

_ROLES: Final = ("sender", "receiver", "receiver", "receiver")
_LENGTHS: Final = (128 << 10, 1 << 20)
_TICK_S: Final = 0.005
_HELD_MAX: Final = 6
_BEFORE: Final = 6  # messages that each receiver gets before a kill
_MOMENT_S: Final = 0.2
_LIMIT_S: Final = 15.0
_SHM: Final = Path("/dev/shm")


class Rival(Protocol):
    """A library that publishes messages in shared memory.

    mark: the beginning of the names of its files.
    """

    def __init__(self, mark: str) -> None: ...

    def sender(self) -> Callable[[bytes], object]:
        """Return a function that sends a message."""

    def receiver(self) -> Callable[[], tuple[Any, memoryview] | None]:
        """Return a function that takes a message: its owner object, and its bytes."""


class Iceoryx2:
    """Publish and subscribe with slices of bytes."""

    def __init__(self, mark: str) -> None:
        module = importlib.import_module("iceoryx2")
        config = module.config.default()
        config.global_cfg.prefix = module.FileName.new(f"{mark}_")
        config.global_cfg.root_path = module.Path.new(f"/tmp/{mark}/")
        self._node: Final = (
            module.NodeBuilder.new().config(config).create(module.ServiceType.Ipc)
        )
        self._service: Final = (
            self._node.service_builder(module.ServiceName.new("long"))
            .publish_subscribe(module.Slice[ctypes.c_uint8])
            .subscriber_max_borrowed_samples(_HELD_MAX + 2)
            .subscriber_max_buffer_size(_HELD_MAX)
            .open_or_create()
        )

    def sender(self) -> Callable[[bytes], object]:
        """Return a function that sends a message."""
        builder = self._service.publisher_builder().initial_max_slice_len(_LENGTHS[1])
        publisher = builder.create()

        def send(message: bytes) -> None:
            sample = publisher.loan_slice_uninit(len(message))
            ctypes.memmove(sample.payload_ptr, message, len(message))
            sample.assume_init().send()

        return send

    def receiver(self) -> Callable[[], tuple[Any, memoryview] | None]:
        """Return a function that takes a message."""
        subscriber = self._service.subscriber_builder().create()

        def receive() -> tuple[Any, memoryview] | None:
            sample = subscriber.receive()
            if sample is None:
                return None
            return sample, sample.payload().as_memory_view().cast("B")

        return receive


class Kickmsg:
    """A region that each process opens; a new one would need new subscribers."""

    def __init__(self, mark: str) -> None:
        self._module: Final = importlib.import_module("kickmsg")
        config = self._module.Config()
        config.max_subscribers = 64
        config.sub_ring_capacity = 8
        config.pool_size = 64
        config.max_payload_size = _LENGTHS[1]
        kind = self._module.ChannelType.PubSub
        make = self._module.SharedRegion.create_or_open
        self._region: Final = make(f"/{mark}_long", kind, config)

    def sender(self) -> Callable[[bytes], object]:
        """Return a function that sends a message."""
        publisher = self._module.Publisher(self._region)

        def send(message: bytes) -> None:
            with suppress(BlockingIOError):  # all slots are taken
                publisher.send(message)

        return send

    def receiver(self) -> Callable[[], tuple[Any, memoryview] | None]:
        """Return a function that takes a message."""
        subscriber = self._module.Subscriber(self._region)

        def receive() -> tuple[Any, memoryview] | None:
            view = subscriber.try_receive_view()
            return None if view is None else (view, memoryview(view).cast("B"))

        return receive


RIVALS: Final[dict[str, type[Rival]]] = {"iceoryx2": Iceoryx2, "kickmsg": Kickmsg}


# A process.


def _work(rival: Rival, role: str, report: Path, seed: str) -> None:
    """Send or receive until the standard input ends."""
    chance = random.Random(seed)
    tick = (
        _sending(rival, chance, seed) if role == "sender" else _receiving(rival, chance)
    )
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT, 0o600)
    while not select.select([sys.stdin], [], [], _TICK_S)[0]:
        count, altered = next(tick)
        os.pwrite(descriptor, f"{count:>12} {altered:>12}".encode(), 0)


def _sending(
    rival: Rival, chance: random.Random, life: str
) -> Iterator[tuple[int, int]]:
    send, count = rival.sender(), 0
    while True:
        count += 1
        send(payload(f"{life}/{count}"[-32:], chance.randint(*_LENGTHS)))
        yield count, 0


def _receiving(rival: Rival, chance: random.Random) -> Iterator[tuple[int, int]]:
    receive, count, altered = rival.receiver(), 0, 0
    held: list[tuple[Any, memoryview]] = []
    while True:
        received = receive()
        if received is not None:
            count += 1
            altered += not is_whole(received[1])
            held.append(received)
        del received
        while len(held) > chance.randint(1, _HELD_MAX):
            owner, view = held.pop(chance.randrange(len(held)))
            altered += not is_whole(view)
            del view, owner
        yield count, altered


# The campaign.


class _Life:
    """One life of a process."""

    def __init__(
        self, rival: str, role: str, mark: str, folder: Path, seed: str
    ) -> None:
        self.role: Final = role
        self._report: Final = folder / secrets.token_hex(4)
        self.process: Final = subprocess.Popen(
            [
                *(sys.executable, "-m", __spec__.name, rival, "--role", role),
                *("--mark", mark, "--report", str(self._report), "--seed", seed),
            ],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": import_path()},
        )

    @property
    def counts(self) -> tuple[int, int]:
        """The messages so far, and those altered while they were held."""
        with suppress(OSError, ValueError):
            count, altered = self._report.read_text(encoding="ascii").split()
            return int(count), int(altered)
        return 0, 0

    def end(self, *, orderly: bool) -> None:
        assert self.process.stdin is not None
        if not orderly:
            self.process.kill()
        self.process.stdin.close()
        try:
            self.process.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            print(f"a {self.role} hangs at its end")
            self.process.kill()
            self.process.wait()


def _left(mark: str) -> tuple[int, int]:
    """Return the number of files, and their KiB."""
    files = [each for each in _SHM.iterdir() if mark in each.name]
    with suppress(FileNotFoundError):
        files += [each for each in Path(f"/tmp/{mark}").rglob("*") if each.is_file()]
    return len(files), sum(each.lstat().st_blocks for each in files) // 2


def _remove(mark: str) -> None:
    for each in _SHM.iterdir():
        if mark in each.name:
            each.unlink()
    shutil.rmtree(f"/tmp/{mark}", ignore_errors=True)


def _campaign(rival: str, count: int, seed: int, folder: Path, mark: str) -> None:
    """Strike so many times, and print the totals."""
    chance = random.Random(seed)
    lives = [_Life(rival, role, mark, folder, f"{seed}/{role}") for role in _ROLES]
    ended: list[_Life] = []
    for number in range(count + 1):
        if not _all_receive(lives):
            print(f"a receiver gets nothing more after {number} kills")
            break
        if number in {0, count}:
            files, kib = _left(mark)
            print(
                f"in use after {number} kills: {files} files, {kib:,} KiB", flush=True
            )
        if number == count:
            break
        at = chance.randrange(len(lives)) if chance.random() < 0.5 else 0
        select.select([], [], [], chance.random() * _MOMENT_S)
        victim = lives[at]
        victim.end(orderly=False)
        ended.append(victim)
        lives[at] = _Life(rival, victim.role, mark, folder, f"{seed}/{number}")
    receivers = [each for each in (*ended, *lives) if each.role == "receiver"]
    received = sum(each.counts[0] for each in receivers)
    altered = sum(each.counts[1] for each in receivers)
    for life in lives:
        life.end(orderly=True)
    left = _left(mark)
    print(f"left after the orderly end of all: {left[0]} files, {left[1]:,} KiB")
    print(f"{received:,} messages, {altered} altered while held")


def _all_receive(lives: Sequence[_Life]) -> bool:
    """Wait until each receiver gets some more; return False if one does not."""
    waiting = [
        (each, each.counts[0] + _BEFORE) for each in lives if each.role == "receiver"
    ]
    deadline = monotonic() + _LIMIT_S
    while waiting and monotonic() < deadline:
        select.select([], [], [], _TICK_S)
        waiting = [(each, goal) for each, goal in waiting if each.counts[0] < goal]
    return not waiting


def _all_killed(rival: str, seed: int, folder: Path, mark: str) -> None:
    """Kill all processes at once, and print the files that remain."""
    lives = [_Life(rival, role, mark, folder, f"{seed}/{role}") for role in _ROLES]
    assert _all_receive(lives)
    for life in lives:
        life.process.send_signal(signal.SIGKILL)
    for life in lives:
        life.end(orderly=False)
    left = _left(mark)
    print(f"left after kill -9 of all at once: {left[0]} files, {left[1]:,} KiB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, or one of its processes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.rivals")
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", default=str(random.SystemRandom().getrandbits(32)))
    for own in ("--role", "--mark", "--report"):
        parser.add_argument(own, default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.role:
        rival = RIVALS[options.rival](options.mark)
        _work(rival, options.role, Path(options.report), options.seed)
        return 0
    began = monotonic()
    mark = f"kills{secrets.token_hex(4)}"
    folder = Path(f"/tmp/{mark}.d")
    folder.mkdir()
    print(f"{options.rival} {importlib.metadata.version(options.rival)}")
    print(f"seed {options.seed}", flush=True)
    try:
        _campaign(options.rival, options.count, int(options.seed), folder, mark)
        _remove(mark)
        _all_killed(options.rival, int(options.seed), folder, mark)
    finally:
        _remove(mark)
        shutil.rmtree(folder)
    print(f"{monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
