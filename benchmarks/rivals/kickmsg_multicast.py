"""kickmsg: a topic in shared memory, with a ring of slots for each receiver.

A receiver that is too slow loses its oldest messages; the rings hold the window of the
suite. Both sides use the calls without a copy by Python. The names of the topic are
removed as soon as all receivers use it.

Only the two sides import the library: a process that keeps its module until the end may
get a page of warnings from it.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "kickmsg"
VERSION: Final = metadata.version("kickmsg")

_TOPIC: Final = "out"
_WAIT_S: Final = 0.5


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Create the topic."""
    import kickmsg  # noqa: PLC0415 # see above

    config = kickmsg.Config()
    config.max_subscribers = job.receivers
    config.sub_ring_capacity = job.window
    config.pool_size = 2 * job.window
    config.max_payload_size = job.size
    node = kickmsg.Node("near", _namespace(folder))
    allocate = node.advertise(_TOPIC, config).allocate

    def send(message: bytes | bytearray) -> None:
        slot = allocate()
        if slot is None:
            raise BlockingIOError("kickmsg has no slot left")
        memoryview(slot)[: len(message)] = message
        slot.publish(len(message))

    def unlink() -> None:
        node.unlink_topic(_TOPIC)
        kickmsg.Registry.unlink(_namespace(folder))

    return MulticastSender(send, unlink, reached=unlink)


def far(folder: str, _: MulticastJob, tally: Tally) -> None:
    """Subscribe, and receive in a loop."""
    import kickmsg  # noqa: PLC0415 # see above

    name = f"far-{tally.number}"
    subscriber = kickmsg.Node(name, _namespace(folder)).subscribe(_TOPIC)
    take, receive = tally.take, subscriber.receive_view
    while not tally.done:
        sample = receive(_WAIT_S)
        if sample is not None:
            take(memoryview(sample))
            sample.release()
    tally.finish()


def _namespace(folder: str) -> str:
    # The topics of a machine share one space of names.
    return Path(folder).name
