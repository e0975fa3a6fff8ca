"""nats-py, with a nats-server on the far machine.

Encrypted, its links are mutual TLS with certificates that hold no host name; hence no
check of it. The subscription has no limit, since the client drops messages above it.
The loops run inside the event loop, so no message pays for the way into it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from time import monotonic, perf_counter, perf_counter_ns, sleep
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.job import Job, Sender
from benchmarks.rivals import TABLE
from benchmarks.tally import Tally

_LIMIT_S: Final = 30.0
_AGAIN_S: Final = 0.001

# Each close of an encrypted link logs a warning about the library's own protocol class.
logging.getLogger("asyncio").setLevel(logging.ERROR)


def near(job: Job) -> Sender:
    """Connect; the receiver has subscribed by then."""
    run = asyncio.new_event_loop().run_until_complete
    client = run(_connected(job, "near"))

    async def send(message: bytes) -> None:
        await client.publish("sink", message)
        await client.flush()

    async def stream(message: bytes, end: float) -> int:
        publish, batches = client.publish, 0
        while perf_counter() < end:
            for _ in repeat(None, job.batch):
                await publish("sink", message)
            batches += 1
        # Not `flush`: its PING overtakes messages that are not written yet, and nothing
        # writes them once the loop has stopped.
        await client.request("ready", timeout=_LIMIT_S)
        return batches

    async def trips(message: bytes, end: float) -> list[int]:
        request, taken_ns = client.request, []
        while perf_counter() < end:
            start = perf_counter_ns()
            await request("sink", message, _LIMIT_S)
            taken_ns.append(perf_counter_ns() - start)
        return taken_ns

    return Sender(
        lambda message: run(send(message)),
        lambda: run(client.close()),
        lambda message: run(client.request("sink", message, _LIMIT_S)),
        lambda message, end: run(stream(message, end)),
        lambda message, end: run(trips(message, end)),
    )


def far(job: Job, tally: Tally) -> None:
    """Run the server, and subscribe; the callback answers."""
    with _server(job):
        asyncio.run(_serve(job, tally))


async def _serve(job: Job, tally: Tally) -> None:
    client = await _connected(job, "far")

    async def take(message: Msg) -> None:
        tally.take(message.data)
        if message.reply:
            await message.respond(message.data)

    async def confirm(message: Msg) -> None:
        await message.respond(b"")

    await client.subscribe("sink", cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    await client.subscribe("ready", cb=confirm)
    await client.flush()
    tally.ready()
    await asyncio.to_thread(tally.finish)
    await client.close()


async def _connected(job: Job, side: str) -> Client:
    settings: dict[str, Any] = {}
    if job.medium == "tls":
        keys = job.keys(side)
        context = ssl.create_default_context(cafile=str(keys / "trusted.pem"))
        context.check_hostname = False
        context.load_cert_chain(str(keys / "machine.pem"))
        settings = {"tls": context, "tls_hostname": side}
    return await nats.connect(job.address().replace("tcp:", "nats:"), **settings)


@contextmanager
def _server(job: Job) -> Iterator[None]:
    lines = [f'listen: "{job.host()}:{job.ports[0]}"']
    if job.medium == "tls":
        own, trusted = (
            job.keys("far") / f"{each}.pem" for each in ("machine", "trusted")
        )
        files = f'cert_file: "{own}", key_file: "{own}", ca_file: "{trusted}"'
        lines.append(f"tls {{ {files}, verify: true }}")
    file = Path(job.folder, "nats.conf")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with subprocess.Popen(
        [TABLE["nats"].program, "--config", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _wait_for(server, job)
            yield
        finally:
            server.terminate()


def _wait_for(server: subprocess.Popen[bytes], job: Job) -> None:
    """Wait until the server listens.

    Raises:
        RuntimeError: it ended instead, or took too long.
    """
    where = (job.host(), job.ports[0])
    deadline = monotonic() + _LIMIT_S
    while monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection(where):
            return
        sleep(_AGAIN_S)
    raise RuntimeError("nats-server does not listen")
