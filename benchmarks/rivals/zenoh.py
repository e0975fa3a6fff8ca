"""zenoh: peers with explicit endpoints, without scouting and without shared memory.

Publishers are reliable, and block if they are too fast. A subscriber's callback takes
the messages; their bytes can only be copied out. Encrypted, the link is mutual TLS with
certificates that hold no host name; hence no check of it.
"""

from __future__ import annotations

import json
from threading import Event, Lock
from typing import Any, Final

import zenoh

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally

_LIMIT_S: Final = 30.0


def near(job: Job) -> Sender:
    """Connect to all receivers, and wait until the publisher has a subscriber."""
    session = _session(job, "near", range(job.receivers))
    back, matching = Lock(), Event()
    back.acquire()
    session.declare_subscriber("back", lambda _: back.release())
    out = _publisher(session, "out")

    def on_match(status: Any) -> None:
        if status.matching:
            matching.set()

    out.declare_matching_listener(on_match)
    on_match(out.matching_status)  # it may have matched before
    matching.wait(_LIMIT_S)

    def ask(message: bytes) -> None:
        out.put(message)
        back.acquire()

    return Sender(out.put, session.close, ask)


def far(job: Job, tally: Tally) -> None:
    """Listen; the subscriber's callback takes and answers."""
    session = _session(job, "far", [tally.number])
    back = _publisher(session, "back")
    take, echoes, reads = tally.take, job.act == "echo", job.reads

    def on_sample(sample: Any) -> None:
        payload = sample.payload
        if take(payload.to_bytes() if reads else payload) and echoes:
            back.put(payload)

    session.declare_subscriber("out", on_sample)
    tally.ready()
    tally.finish()
    session.close()


def _publisher(session: Any, key: str) -> Any:
    return session.declare_publisher(
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
    )


def _session(job: Job, side: str, numbers: Any) -> Any:
    scheme = "tls/" if job.medium == "tls" else "tcp/"
    endpoints = [
        job.address(number)
        .replace("ipc://", "unixsock-stream/")
        .replace("tcp://", scheme)
        for number in numbers
    ]
    settings: dict[str, object] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        # Not used by a plain put; it leaves files behind.
        "transport/shared_memory/enabled": False,
        "listen/endpoints": endpoints if side == "far" else [],
        "connect/endpoints": endpoints if side == "near" else [],
    }
    if job.medium == "tls":
        own = str(job.keys(side) / "machine.pem")
        role = "listen" if side == "far" else "connect"
        settings |= {
            "transport/link/tls/root_ca_certificate": str(
                job.keys(side) / "trusted.pem"
            ),
            f"transport/link/tls/{role}_private_key": own,
            f"transport/link/tls/{role}_certificate": own,
            "transport/link/tls/enable_mtls": True,
            "transport/link/tls/verify_name_on_connect": False,
        }
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)
