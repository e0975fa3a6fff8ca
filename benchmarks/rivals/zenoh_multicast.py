"""zenoh to several processes: peers over UNIX sockets, without shared memory.

Scouting is off, and the sender has the only endpoint. Publishers are reliable, and
block if they are too fast.
"""

from __future__ import annotations

import json
from importlib import metadata
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import zenoh

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near", "near_of", "receive", "session_of"]

NAME: Final = "zenoh"
VERSION: Final = metadata.version("eclipse-zenoh")


def near(folder: str, _: MulticastJob) -> MulticastSender:
    """Listen, and publish."""
    session = session_of(folder, listens=True, shares=False)
    return near_of(session, lambda message: message)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Dial, and subscribe."""
    receive(session_of(folder, listens=False, shares=False), job, tally)


def near_of(
    session: Any, prepare: Callable[[bytes | bytearray], Any]
) -> MulticastSender:
    """Return the sender of a session.

    prepare: returns the payload that the publisher is given for a message.
    """
    publisher = _publisher(session, "out")
    put = publisher.put
    back = Lock()
    back.acquire()
    session.declare_subscriber("back", lambda _: back.release())

    def ask(message: bytes) -> None:
        put(prepare(message))
        back.acquire()

    return MulticastSender(lambda message: put(prepare(message)), session.close, ask)


def receive(session: Any, job: MulticastJob, tally: Tally) -> None:
    """Receive all messages of a job, and close the session."""
    take, echoes, reads = tally.take, job.kind == "echo", job.reads
    back = _publisher(session, "back")

    def on_sample(sample: Any) -> None:
        payload = sample.payload
        # The only way to its bytes is a copy.
        if take(payload.to_bytes() if reads else payload) and echoes:
            back.put(payload)

    session.declare_subscriber("out", on_sample)
    tally.finish()
    session.close()


def session_of(folder: str, *, listens: bool, shares: bool) -> Any:
    """Open a session.

    listens: True for the sender. shares: True to use shared memory.
    """
    endpoint = [f"unixsock-stream/{folder}/zenoh"]
    settings: dict[str, object] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": shares,
        "listen/endpoints": endpoint if listens else [],
        "connect/endpoints": [] if listens else endpoint,
    }
    if shares:
        settings["transport/shared_memory/mode"] = "init"
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def _publisher(session: Any, key: str) -> Any:
    return session.declare_publisher(
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
    )
