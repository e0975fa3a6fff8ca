"""zenoh between machines: two peers, and one explicit endpoint on the far one.

Scouting is off. Encrypted, the link is mutual TLS with our own certificates, which
hold no host name; hence no check of it. A peer dials again every 10 ms, since the other
side may not listen yet; the default of 1 s would only delay the first message.
Publishers are reliable, and block if they are too fast.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from importlib import metadata
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final

import zenoh

from benchmarks.testbed import Near

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.testbed import Arrivals, Over, Testbed

__all__ = ["NAME", "VERSION", "far", "near", "service"]

NAME: Final = "zenoh"
VERSION: Final = metadata.version("eclipse-zenoh")

_PORT: Final = 7403
_LIMIT_S: Final = 30.0
_DIAL_AGAIN: Final = {
    "period_init_ms": 10,
    "period_max_ms": 10,
    "period_increase_factor": 1,
}


def service(_: Testbed) -> AbstractContextManager[object]:
    """Return an empty context: peers need no server."""
    return nullcontext()


def near(testbed: Testbed, _: str) -> Near:
    """Dial, and wait until the publisher has a subscriber."""
    session = _session(testbed, "near")
    back, matching = Lock(), Event()

    def on_match(status: Any) -> None:
        if status.matching:
            matching.set()

    back.acquire()
    session.declare_subscriber("back", lambda _: back.release())
    out = _publisher(session, "out")
    out.declare_matching_listener(on_match)
    on_match(out.matching_status)  # it may have matched before
    matching.wait(_LIMIT_S)

    def ask(message: bytes) -> None:
        out.put(message)
        back.acquire()

    return Near.of_calls(out.put, ask, session.close)


def far(testbed: Testbed, job: str, arrivals: Arrivals, over: Over) -> None:
    """Listen; the subscriber's callback answers."""
    session = _session(testbed, "far")
    back = _publisher(session, "back")
    arrived = arrivals.take

    def take(sample: Any) -> None:
        arrived(sample)
        if job == "echo":
            back.put(sample.payload)

    session.declare_subscriber("out", take)
    over()
    session.close()


def _session(testbed: Testbed, machine: str) -> Any:
    config = zenoh.Config()
    for key, value in _settings(testbed, machine).items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def _settings(testbed: Testbed, machine: str) -> dict[str, object]:
    endpoint = [f"{'tls' if testbed.secure else 'tcp'}/{testbed.far}:{_PORT}"]
    settings: dict[str, object] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": False,
        "listen/endpoints": endpoint if machine == "far" else [],
        "connect/endpoints": endpoint if machine == "near" else [],
        "connect/retry": _DIAL_AGAIN,
    }
    if testbed.secure:
        own = testbed.certificate(machine)
        role = "listen" if machine == "far" else "connect"
        settings |= {
            "transport/link/tls/root_ca_certificate": testbed.authority(machine),
            f"transport/link/tls/{role}_private_key": own,
            f"transport/link/tls/{role}_certificate": own,
            "transport/link/tls/enable_mtls": True,
            "transport/link/tls/verify_name_on_connect": False,
        }
    return settings


def _publisher(session: Any, key: str) -> Any:
    return session.declare_publisher(
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
    )
