"""A web server passes its requests on to a bus: each is a command, and its answer.

The server and the task share one event loop here. The task may as well live in another
process: only its name is used.
"""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bus import CommandTimeoutError, Incoming, UnresolvedError, aio


@asynccontextmanager
async def bus_of(_: Starlette) -> AsyncIterator[dict[str, aio.Bus]]:
    async with aio.open_bus("house") as bus:

        @bus.task("thermostat")
        async def decide(message: Incoming) -> dict[str, bool]:
            return {"heat": message.payload["celsius"] < 18}

        yield {"bus": bus}


async def call(request: Request) -> JSONResponse:
    task, payload = request.path_params["task"], await request.json()
    try:
        answer = await request.state.bus.call(task, payload, timeout=1)
    except UnresolvedError as error:
        return JSONResponse({"error": str(error)}, status_code=404)
    except CommandTimeoutError as error:
        return JSONResponse({"error": str(error)}, status_code=504)
    return JSONResponse(answer)


app = Starlette(routes=[Route("/{task}", call, methods=["POST"])], lifespan=bus_of)


def post(port: int, task: str, payload: object) -> None:
    url, data = f"http://127.0.0.1:{port}/{task}", json.dumps(payload).encode()
    try:
        with urllib.request.urlopen(url, data) as response:
            print(response.status, response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            print(error.code, error.reason)


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    port = listening.getsockname()[1]
    await asyncio.to_thread(post, port, "thermostat", {"celsius": 17})
    await asyncio.to_thread(post, port, "thermostat", {"celsius": 21})
    await asyncio.to_thread(post, port, "window", {"open": True})
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
