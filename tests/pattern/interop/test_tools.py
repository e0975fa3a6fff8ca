"""The command-line tools of nanomsg and NNG as peers; the second is another version."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.pattern.interop.testbed import TRANSPORTS
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pattern.interop.testbed import Testbed

PACKAGES = {"nanocat": "nanomsg-utils", "nngcat": "nng-utils"}
WORDS = {
    "nanocat": {True: "--bind", False: "--connect"},
    "nngcat": {True: "--listen", False: "--dial"},
}
KINDS = [
    *(("nanocat", "bus", "--bus"), ("nanocat", "pair0", "--pair")),
    *(("nngcat", "bus", "--bus0"), ("nngcat", "pair0", "--pair0")),
    ("nngcat", "pair1", "--pair1"),
]


@contextmanager
def running(tool: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a tool until the end of the block."""
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}, of the Debian package {PACKAGES[tool]}")
    with subprocess.Popen([tool, *arguments], stdout=subprocess.PIPE) as program:
        try:
            yield program
        finally:
            program.kill()


@pytest.mark.deep
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])
@pytest.mark.parametrize(("tool", "kind", "option"), KINDS)
def test_a_tool_sends_to_us_and_prints_our_messages(
    testbed: Testbed, tool: str, kind: str, option: str, listens: bool, transport: str
) -> None:
    """Both tools repeat their message each second, for later peers."""
    ours = testbed.own(kind)
    if listens:
        # An address at which the tool can listen: one that is no longer used.
        finder = testbed.own(kind)
        url = testbed.listen(finder, transport)
        finder.close()
        ours.dial(url)
    else:
        url = testbed.listen(ours, transport)

    command = [option, WORDS[tool][listens], url, "-D", "ping", "-i", "1", "--quoted"]
    with running(tool, *command) as program:
        assert ours.receive(LIMIT_S) == b"ping"
        for message in (b"hello \x01", b"", b"bye"):
            ours.send(message)

        assert program.stdout is not None
        printed = [program.stdout.readline() for _ in range(3)]
        assert printed == [b'"hello \\x01"\n', b'""\n', b'"bye"\n']
