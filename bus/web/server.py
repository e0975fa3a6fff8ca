"""The server of the page: its files, and the data of a history.

====================  ==========================================================
GET /                 the page; /page.css and /page.js likewise
GET /data/stream      one line of JSON with the whole picture, and then one line for
                      each round, without end
GET /data/at          the picture after a round, ``?round=NUMBER``
GET /data/relatives   the tasks that subscribe to a task, and those that it
                      subscribes to, ``?round=NUMBER&process=KEY&task=NAME``
GET /data/way         the steps of a message of a recording, ``?message=TEXT``
POST /data/command    sends a command; only with ``--allow-commands``
====================  ==========================================================

The page reads the stream by `fetch`, which sends the token in a header; the
`EventSource` of a browser cannot. A slow reader delays no other one: each takes the
rounds from the history when it can.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import attrs
from msgspec import DecodeError, Meta, Struct, json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from bus.model.specification import Specification
from bus.web.guard import Guard
from bus.web.picture import COLUMNS, History, Picture, Round

__all__ = ["Subject", "new_app"]

_PAGE: Final = Path(__file__).with_name("page")
_FILES: Final = {
    "/": "index.html",
    "/page.css": "page.css",
    "/page.js": "page.js",
}
_POLL_S: Final = 0.1  # between two looks at the history
_BODY_MAX: Final = 1 << 20
_DIGITS_MAX: Final = 18  # of the number of a round
_RELATIVES_MAX: Final = 200


@attrs.frozen
class Subject:
    """The bus or the recording that a page shows.

    title: its name for people.
    live: True for a bus.
    way: returns the steps of a message; None for a live bus.
    command: sends a command and returns its answer, as the page shows it; None if
      commands are not allowed.
    """

    title: str
    live: bool
    history: History
    way: Callable[[str], list[dict[str, Any]]] | None = None
    command: Callable[[str, Any, float], dict[str, Any]] | None = None


def new_app(
    subject: Subject,
    *,
    token: str,
    hosts: frozenset[str],
    scheme: str,
    is_closing: Callable[[], bool],
) -> Guard:
    """Return the application.

    token, hosts, scheme: see `Guard`.
    is_closing: returns True once the streams are to end.
    """
    data = _Data(subject, is_closing)
    routes = [
        *(Route(path, _file(name)) for path, name in _FILES.items()),
        Route("/data/stream", data.stream),
        Route("/data/at", data.at),
        Route("/data/relatives", data.relatives),
        Route("/data/way", data.way),
        Route("/data/command", data.command, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token=token, hosts=hosts, scheme=scheme)


def _file(name: str) -> Callable[[Request], FileResponse]:
    def answer(_: Request) -> FileResponse:
        return FileResponse(_PAGE / name)

    return answer


class _Command(Struct):
    """The body of a request to send a command; timeout_s: for its answer."""

    to: str
    payload: Any
    timeout_s: Annotated[float, Meta(ge=0, le=60)] = 5.0


_COMMANDS: Final = json.Decoder(_Command)


class _Data:
    """The data of one subject."""

    def __init__(self, subject: Subject, is_closing: Callable[[], bool]) -> None:
        self._subject: Final = subject
        self._history: Final = subject.history
        self._is_closing: Final = is_closing
        self._lines: dict[int, bytes] = {}

    async def stream(self, _: Request) -> Response:
        """Answer with the picture and all rounds to come."""
        return StreamingResponse(self._rounds(), media_type="application/x-ndjson")

    async def _rounds(self) -> AsyncIterator[bytes]:
        while not (rounds := self._history.rounds):
            if self._is_closing():
                return
            await anyio.sleep(_POLL_S)
        last = rounds[-1].number
        yield await run_in_threadpool(self._first_line, rounds)
        while not self._is_closing():
            if self._history.rounds[0].number > last + 1:
                return  # it read too slowly; it connects again, and gets the picture
            for each in self._history.after(last):
                last = each.number
                yield self._line(each)
            await anyio.sleep(_POLL_S)

    def _first_line(self, rounds: tuple[Round, ...]) -> bytes:
        subject = self._subject
        first = {
            "title": subject.title,
            "live": subject.live,
            "commands": subject.command is not None,
            "ways": subject.way is not None,
            "columns": COLUMNS,
            "number": rounds[-1].number,
            "at_ns": rounds[-1].at_ns,
            "changes": self._history.at(rounds[-1].number).whole(),
            "totals": [[each.number, each.at_ns, each.totals] for each in rounds],
            "losses": self._history.losses,
        }
        return json.encode(first) + b"\n"

    def _line(self, one: Round) -> bytes:
        """Return a round as a line; all readers share the last ones."""
        line = self._lines.get(one.number)
        if line is None:
            line = json.encode(one) + b"\n"
            self._lines = {**dict([*self._lines.items()][-7:]), one.number: line}
        return line

    def at(self, request: Request) -> Response:
        """Answer with the picture after a round."""
        picture = self._picture(request)
        return _json({"changes": picture.whole()})

    def _picture(self, request: Request) -> Picture:
        text = request.query_params.get("round", "")
        rounds = self._history.rounds
        newest = rounds[-1].number if rounds else 0
        is_number = text.isdecimal() and len(text) <= _DIGITS_MAX
        return self._history.at(int(text) if is_number else newest)

    def relatives(self, request: Request) -> Response:
        """Answer with the subscribers and the notifiers of a task."""
        key = request.query_params.get("process", "")
        name = request.query_params.get("task", "")
        picture = self._picture(request)
        view = picture.views.get(key)
        if view is None or name not in view.tasks:
            return _json({"error": f"{key} has no task {name}"}, 404)
        return _json(_relatives(picture, key, name))

    def way(self, request: Request) -> Response:
        """Answer with the steps of a message."""
        if self._subject.way is None:
            return _json({"error": "only a recording has the way of a message"}, 404)
        try:
            steps = self._subject.way(request.query_params.get("message", ""))
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        return _json({"steps": steps})

    async def command(self, request: Request) -> Response:
        """Send a command; answer with its answer."""
        send = self._subject.command
        if send is None:
            text = "commands are not allowed; start bus web with --allow-commands"
            return _json({"error": text}, 403)
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > _BODY_MAX:
                    return _json({"error": f"longer than {_BODY_MAX} bytes"}, 413)
            asked = _COMMANDS.decode(body)
        except (DecodeError, RecursionError, ClientDisconnect) as error:
            return _json({"error": f"not a command: {error}"}, 400)
        return _json(
            await run_in_threadpool(send, asked.to, asked.payload, asked.timeout_s)
        )


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.encode(value), status, media_type="application/json")


def _relatives(picture: Picture, key: str, name: str) -> dict[str, Any]:
    """Return the tasks that subscribe to a task, and those it subscribes to."""
    place = COLUMNS.index("subscriptions")
    machine = key.partition("/")[0]
    subscribers, notifiers = [], []
    own = picture.views[key].tasks[name][place]
    wanted = [_machine_and_pattern(each[0], machine) for each in own]
    for other, view in picture.views.items():
        there = other.partition("/")[0]
        for task, row in view.tasks.items():
            if any(
                where == there and pattern.matches(task) for where, pattern in wanted
            ):
                notifiers.append([other, task])
            for subscription in row[place]:
                where, pattern = _machine_and_pattern(subscription[0], there)
                if where == machine and pattern.matches(name):
                    subscribers.append([other, task, subscription[0]])
                    break
    return {
        "subscribers": subscribers[:_RELATIVES_MAX],
        "notifiers": notifiers[:_RELATIVES_MAX],
        "more": max(0, len(subscribers) - _RELATIVES_MAX)
        + max(0, len(notifiers) - _RELATIVES_MAX),
    }


def _machine_and_pattern(text: str, machine: str) -> tuple[str, Specification]:
    found = Specification.parse(text)
    return found.machine or machine, found
