"""Fixtures: a bus of real processes, the command about it, and a browser."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import alpha, beta
from tests.cli.verbs import program
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["alpha", "beta"]


class Served:
    """The command ``bus web`` at work."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.host, _, self.token = address.partition("//")[2].partition("/#")

    def ask(
        self, path: str, *, body: object = None, token: str | None = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        connection = HTTPConnection(self.host, timeout=LIMIT_S)
        bearer = self.token if token is None else token
        method = "GET" if body is None else "POST"
        text = None if body is None else json.dumps(body)
        try:
            headers = {"Authorization": f"Bearer {bearer}"}
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        is_json = answer.getheader("content-type") == "application/json"
        return answer.status, json.loads(data) if is_json else data.decode()


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """Run ``bus web``; it ends in order at Ctrl-C, and has complained of nothing."""
    web = program("web", "--port", "0", "--json", *arguments)
    try:
        assert web.stdout is not None
        line = web.stdout.readline()
        assert line, web.communicate(timeout=LIMIT_S)[1]
        yield Served(json.loads(line)["address"])
        web.send_signal(signal.SIGINT)
        _, complaints = web.communicate(timeout=LIMIT_S)
        assert (web.returncode, complaints) == (0, "")
    finally:
        web.kill()
        web.communicate()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Return a function that runs ``bus web`` to the end of the test."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(serving(*arguments))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the Chromium of the system; nothing is downloaded."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright, of the extra"
    )
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs chromium")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=LIMIT_S * 1000
        )
        yield found
        found.close()


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """Return the errors that pages have reported; none is left at the end."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def visit(browser: Browser, errors: list[str]) -> Iterator[Callable[..., Page]]:
    """Return a function that opens an address."""
    with ExitStack() as stack:

        def open_page(address: str, **options: Any) -> Page:
            context = browser.new_context(**options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(LIMIT_S * 1000)
            page.on("console", lambda each: errors.append(each.text))
            page.on("pageerror", lambda each: errors.append(str(each)))
            page.on("dialog", lambda each: errors.append(each.message))
            page.goto(address)
            return page

        yield open_page
