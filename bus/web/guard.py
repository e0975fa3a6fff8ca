"""`Guard`: decides which requests the page's server answers.

The server shows names and counters of a bus, and may send commands. So these rules
hold for each request, in this order:

* The Host header is the address at which the server listens. Else another site could
  make its own name lead here, and read the answers (DNS rebinding).
* An Origin header, which browsers add to requests between sites, is that address, too.
* All but the files of the page needs the token, in the header Authorization. A browser
  adds no such header by itself, so no other site can use the token of a user. The
  token stands behind the ``#`` of the address: a browser sends that part to no server,
  and it appears in no log. Rejected: a cookie, which a browser gives to the servers at
  all ports of a host, those of other users included.

Each answer has a content security policy: only files of this server are loaded, no
script stands in the page, and no text becomes HTML.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

__all__ = ["DATA", "Guard"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

DATA: Final = "/data/"  # the paths that need the token

_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        b" img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        b" require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """An ASGI application around another one.

    hosts: the values of the Host header that are this server.
    scheme: ``http`` or ``https``.
    """

    def __init__(
        self, app: App, *, token: str, hosts: frozenset[str], scheme: str
    ) -> None:
        self._app: Final = app
        self._bearer: Final = f"Bearer {token}".encode()
        self._hosts: Final = hosts
        self._origins: Final = {f"{scheme}://{each}" for each in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket, which this server has none of
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, answer)
            return
        status, text = refusal
        body = f"{text}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        await answer(
            {"type": "http.response.start", "status": status, "headers": headers}
        )
        await answer({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason to refuse a request, or None."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = [each.decode("latin-1") for each in headers.get(b"host", ())]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            shown = ", ".join(sorted(self._hosts))
            return 421, f"this server is {shown}; open the address that bus web prints"
        for origin in headers.get(b"origin", ()):
            if origin.decode("latin-1").lower() not in self._origins:
                return 403, "another site may not use this server"
        if scope["path"].startswith(DATA):
            given = headers.get(b"authorization", [b""])
            if len(given) != 1 or not secrets.compare_digest(given[0], self._bearer):
                return 401, "the token is wrong; open the address that bus web prints"
        return None
