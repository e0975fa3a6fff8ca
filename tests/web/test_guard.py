"""`Guard` refuses each request that does not come from the page itself."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from bus.web.guard import Guard
from specs.clauses import clause

HOST = (b"host", b"127.0.0.1:8765")
TOKEN = (b"authorization", b"Bearer secret")


async def _answers(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the bus"})


def ask(
    *headers: tuple[bytes, bytes], path: str = "/data/at", kind: str = "http"
) -> list[MutableMapping[str, Any]]:
    """Return what the guard sends for a request."""
    sent: list[MutableMapping[str, Any]] = []
    guard = Guard(
        _answers, token="secret", hosts=frozenset({"127.0.0.1:8765"}), scheme="http"
    )

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the guard reads no body")

    scope = {"type": kind, "path": path, "headers": list(headers)}
    asyncio.run(guard(scope, receive, send))
    return sent


@clause("BUS-PAGE-1")
def test_the_page_itself_is_answered() -> None:
    start, body = ask(HOST, TOKEN, (b"origin", b"http://127.0.0.1:8765"))

    assert (start["status"], body["body"]) == (200, b"the bus")


@clause("BUS-PAGE-1")
def test_the_files_of_the_page_need_no_token() -> None:
    assert ask(HOST, path="/")[0]["status"] == 200


@clause("BUS-PAGE-1")
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (421, (TOKEN,)),
        (421, (TOKEN, (b"host", b"evil.example:8765"))),
        (421, (TOKEN, (b"host", b"127.0.0.1:8766"))),
        (421, (TOKEN, HOST, (b"host", b"evil.example"))),
        (403, (TOKEN, HOST, (b"origin", b"http://evil.example"))),
        (403, (TOKEN, HOST, (b"origin", b"null"))),
        (403, (TOKEN, HOST, (b"origin", b"https://127.0.0.1:8765"))),
        (401, (HOST,)),
        (401, (HOST, (b"authorization", b"Bearer guess"))),
        (401, (HOST, TOKEN, (b"authorization", b"Bearer guess"))),
        (401, (HOST, (b"authorization", b"secret"))),
        (401, (HOST, (b"cookie", b"token=secret"))),
    ],
)
def test_any_other_request_is_refused(
    status: int, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    start, body = ask(*headers)

    assert start["status"] == status
    assert b"the bus" not in body["body"]
    assert b"secret" not in body["body"]


@clause("BUS-PAGE-1")
@pytest.mark.parametrize("path", ["/", "/data/at"])
def test_each_answer_forbids_scripts_of_others(path: str) -> None:
    headers = dict(ask(HOST, path=path)[0]["headers"])

    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert headers[b"cache-control"] == b"no-store"


def test_a_websocket_is_refused() -> None:
    assert [each["type"] for each in ask(HOST, TOKEN, kind="websocket")] == [
        "websocket.close"
    ]
