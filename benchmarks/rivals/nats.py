"""nats-py between machines, with a nats-server on the far one.

The server runs before the clock starts. Encrypted, its links are mutual TLS with our
own certificates, which hold no host name; hence no check of it. The subscription has no
limit, since the client drops messages above it. The loops run inside the event loop,
so no message pays for the way into it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
from contextlib import contextmanager, suppress
from importlib import metadata
from itertools import repeat
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any, Final

import nats
import nats.errors

from benchmarks.testbed import Near

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from benchmarks.testbed import Arrivals, Over, Testbed

__all__ = ["NAME", "PROGRAM", "VERSION", "far", "near", "service"]

NAME: Final = "nats"
VERSION: Final = metadata.version("nats-py")
PROGRAM: Final = "nats-server"

_PORT: Final = 7404
_LIMIT_S: Final = 30.0
_AGAIN_S: Final = 0.001

# Each close of an encrypted link logs a warning about the library's own protocol class.
logging.getLogger("asyncio").setLevel(logging.ERROR)


@contextmanager
def service(testbed: Testbed) -> Iterator[None]:
    """Run a server on the far machine."""
    file = testbed.folder / "nats.conf"
    file.write_text(_server_settings(testbed), encoding="utf-8")
    with subprocess.Popen(
        [PROGRAM, "--config", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _wait_for(server, testbed)
            yield
        finally:
            server.terminate()


def near(testbed: Testbed, _: str) -> Near:
    """Connect, and wait for the subscriber."""
    run = asyncio.new_event_loop().run_until_complete
    client = run(_connected(testbed, "near"))
    run(_reach(client))

    async def stream(message: bytes, count: int) -> None:
        publish = client.publish
        for _ in repeat(None, count):
            await publish("sink", message)
        # Not `flush`: its PING overtakes messages that are not written yet, and nothing
        # writes them once the loop has stopped.
        await client.request("ready", timeout=_LIMIT_S)

    async def trips(message: bytes, count: int) -> list[int]:
        request = client.request
        taken_ns = []
        for _ in repeat(None, count):
            start = perf_counter_ns()
            await request("sink", message, _LIMIT_S)
            taken_ns.append(perf_counter_ns() - start)
        return taken_ns

    return Near(
        lambda message, count: run(stream(message, count)),
        lambda message, count: run(trips(message, count)),
        lambda: run(client.close()),
    )


def far(testbed: Testbed, _: str, arrivals: Arrivals, over: Over) -> None:
    """Subscribe; the callback answers the messages that want an answer."""
    asyncio.run(_serve(testbed, arrivals, over))


async def _serve(testbed: Testbed, arrivals: Arrivals, over: Over) -> None:
    client = await _connected(testbed, "far")
    arrived = arrivals.take

    async def take(message: Msg) -> None:
        arrived(message)
        if message.reply:
            await message.respond(message.data)

    async def confirm(message: Msg) -> None:
        await message.respond(b"")

    await client.subscribe("sink", cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    # After it on the same link: an answer shows that the other one is in force, too.
    await client.subscribe("ready", cb=confirm)
    await client.flush()
    await asyncio.to_thread(over)
    await client.close()


async def _reach(client: Client) -> None:
    while True:
        with suppress(nats.errors.NoRespondersError):
            await client.request("ready", timeout=_LIMIT_S)
            return
        await asyncio.sleep(_AGAIN_S)


async def _connected(testbed: Testbed, machine: str) -> Client:
    settings: dict[str, Any] = {}
    if testbed.secure:
        context = ssl.create_default_context(cafile=testbed.authority(machine))
        context.check_hostname = False
        context.load_cert_chain(testbed.certificate(machine))
        settings = {"tls": context, "tls_hostname": machine}
    return await nats.connect(f"nats://{testbed.far}:{_PORT}", **settings)


def _server_settings(testbed: Testbed) -> str:
    lines = [f'listen: "{testbed.far}:{_PORT}"']
    if testbed.secure:
        own = testbed.certificate("far")
        lines += [
            "tls {",
            f'  cert_file: "{own}"',
            f'  key_file: "{own}"',
            f'  ca_file: "{testbed.authority("far")}"',
            "  verify: true",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _wait_for(server: subprocess.Popen[bytes], testbed: Testbed) -> None:
    """Wait until the server listens.

    Raises:
        RuntimeError: it ended instead, or took too long.
    """
    deadline = monotonic() + _LIMIT_S
    while monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection((testbed.far, _PORT)):
            return
        sleep(_AGAIN_S)
    raise RuntimeError(f"{PROGRAM} does not listen at {testbed.far}:{_PORT}")
