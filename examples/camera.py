"""A camera and three viewers in four processes; one viewer is slow.

Each frame of 4 MiB lies in shared memory once, and all viewers read it there. The slow
viewer misses frames, and receives their number. The others do not wait for it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from queue import SimpleQueue
from typing import Any

from bus import Bus, Incoming, open_bus

FRAME_BYTES = 4 * 2**20
FRAMES_PER_S = 30
VIEWERS = {"hall": 0.0, "door": 0.0, "slow": 0.25}  # the time for a frame, in seconds


def frame(number: int) -> bytes:
    """Return a picture: its number, then its pixels."""
    return number.to_bytes(8) + bytes([number % 256]) * (FRAME_BYTES - 8)


def view(name: str) -> None:
    """Look at all bytes of each frame, until the camera sends an empty one."""
    report: dict[str, Any] = {"name": name, "seen": 0, "missed": 0, "wrong": 0}
    ended: SimpleQueue[None] = SimpleQueue()

    def look(message: Incoming) -> None:
        picture = message.payload
        report["missed"] += message.gap
        if not picture:
            ended.put(None)
            return
        number = int.from_bytes(picture[:8])
        report["seen"] += 1
        report["wrong"] += zlib.crc32(picture) != zlib.crc32(frame(number))
        time.sleep(VIEWERS[name])

    with open_bus("studio", process=name) as bus:
        eye = bus.register(f"eye/{name}")
        # New frames are better than old ones: at most two are unread.
        eye.subscribe("camera", look, capacity=2, overflow="drop-oldest", wait=True)
        bus.command("desk", report)
        ended.get()
        bus.command("desk", report)


def record(bus: Bus, seconds: float) -> int:
    """Send frames in step with the clock; return how many."""
    camera = bus.register("camera")
    count = max(1, round(seconds * FRAMES_PER_S))
    began = time.monotonic()
    for number in range(count):
        due = began + number / FRAMES_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        camera.notify(frame(number))
    camera.notify(b"")
    return count


def main(seconds: float) -> None:
    """Be the camera; the viewers are processes of their own."""
    desk: SimpleQueue[dict[str, Any]] = SimpleQueue()
    with open_bus("studio", process="camera") as bus:
        bus.register("desk", on_command=lambda message: desk.put(message.payload))
        command = [sys.executable, __file__, "--viewer"]
        viewers = [subprocess.Popen([*command, name]) for name in VIEWERS]  # noqa: S603
        for _ in VIEWERS:
            desk.get()  # it has subscribed
        count = record(bus, seconds)
        print(f"camera: {count} frames of 4 MiB")
        reports = {report["name"]: report for report in [desk.get() for _ in VIEWERS]}
        memory = bus.inspect().shared_memory
        by_memory = 0 if memory is None else memory.messages.shared
        print(f"camera: {by_memory} of {len(VIEWERS) * count} went by shared memory")
    for name in VIEWERS:
        print(
            "{name}: {seen} seen, {missed} missed, {wrong} wrong".format(
                **reports[name]
            )
        )
    print("exit codes:", *[viewer.wait() for viewer in viewers])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--viewer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.viewer:
        view(options.viewer)
    else:
        with tempfile.TemporaryDirectory() as os.environ["BUS_RUN_DIR"]:
            main(options.seconds)
