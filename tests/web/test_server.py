"""``bus web`` over HTTP, on a bus of real processes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from specs.clauses import clause
from tests.cli.verbs import CODE, MACHINE, program, verb
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.processes import start
from tests.support import LIMIT_S, until
from tests.web.conftest import Served

if TYPE_CHECKING:
    Serve = Callable[..., Served]

pytest.importorskip("uvicorn", reason="needs uvicorn, of the extra")
pytestmark = [needs_unix_sockets, pytest.mark.deep]


@contextmanager
def rounds(served: Served) -> Iterator[Iterator[Any]]:
    """Read the lines of the stream."""
    connection = HTTPConnection(served.host, timeout=LIMIT_S)
    try:
        headers = {"Authorization": f"Bearer {served.token}"}
        connection.request("GET", "/data/stream", headers=headers)
        answer = connection.getresponse()
        yield (json.loads(line) for line in answer)
    finally:
        connection.close()


def facts_of(served: Served, key: str) -> dict[str, Any]:
    """Return the facts of a process, empty if it is not shown."""
    _, found = served.ask("/data/at")
    for change in found["changes"]:
        if change["key"] == key:
            return dict(change["facts"])
    return {}


def test_the_stream_has_the_picture_and_then_the_changes(
    serve: Serve, alpha: Far, beta: Far
) -> None:
    served = serve()

    with rounds(served) as lines:
        first = next(lines)
        place = first["columns"].index("commands")
        beta("[bus.call('echo', n) for n in range(7)] and None")
        changes = (
            change
            for line in itertools.chain([first], lines)
            for change in line["changes"]
        )
        both, counted = {"machine/alpha", "machine/beta"}, False
        keys = set[str]()
        while not (counted and keys == both):
            change = next(changes)
            keys.add(change["key"])
            counted = counted or change["tasks"].get("echo", [0] * 9)[place] == 7

    assert (first["title"], first["commands"]) == ("bus1 on machine", False)


def test_a_wrong_token_and_a_strange_host_see_nothing(serve: Serve, alpha: Far) -> None:
    served = serve()

    assert served.ask("/data/at", token="guess")[0] == 401
    assert served.ask("/data/stream", token="guess")[0] == 401
    status, page = served.ask("/", token="")
    assert status == 200
    assert served.token not in page
    served.host = served.host.replace("127.0.0.1", "127.0.0.2")
    with pytest.raises(OSError, match="refused"):
        served.ask("/")  # it listens at no other address


@clause("BUS-PAGE-2")
def test_the_page_is_read_only_unless_commands_are_allowed(
    serve: Serve, alpha: Far
) -> None:
    status, answer = serve().ask("/data/command", body={"to": "echo", "payload": 1})

    assert status == 403
    assert "--allow-commands" in answer["error"]
    assert alpha("made['echo'].got") == []


@clause("BUS-PAGE-2")
def test_an_allowed_command_is_sent_and_answered(serve: Serve, alpha: Far) -> None:
    served = serve("--allow-commands")

    answer = served.ask("/data/command", body={"to": "echo", "payload": {"a": [1]}})
    nobody = served.ask(
        "/data/command", body={"to": "no/such", "payload": 1, "timeout_s": 0.1}
    )
    illegal = served.ask("/data/command", body={"to": "a//b", "payload": 1})
    broken = served.ask("/data/command", body=["echo"])

    assert answer == (200, {"answer": '{"a": [1]}'})
    assert "no/such" in nobody[1]["error"]
    assert "a//b" in illegal[1]["error"]
    assert broken[0] == 400
    assert alpha("made['echo'].got") == [{"a": [1]}]


def test_a_malformed_request_is_refused_and_the_next_one_answered(
    serve: Serve, alpha: Far
) -> None:
    served = serve("--allow-commands")

    huge = {"to": "echo", "payload": 1, "timeout_s": 10**400}
    deep: object = 1
    for _ in range(600):
        deep = [deep]
    bodies: list[object] = [[], {"to": "echo"}, huge, {"to": "echo", "payload": deep}]
    refused = [served.ask("/data/command", body=body) for body in bodies]
    host, _, port = served.host.partition(":")
    with socket.create_connection((host, int(port))) as leaves:
        head = f"Host: {served.host}\r\nAuthorization: Bearer {served.token}\r\n"
        head = f"POST /data/command HTTP/1.1\r\n{head}Content-Length: 9\r\n\r\n"
        leaves.sendall(head.encode())
    far_off = served.ask(f"/data/at?round={'9' * 5000}")

    assert [status for status, _ in refused[:3]] == [400] * 3
    assert all(answer["error"] for _, answer in refused)
    assert far_off == served.ask("/data/at")
    assert alpha("made['echo'].got") == []


def test_the_browser_gets_the_token_in_no_argument(
    serve: Serve, alpha: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine sees the arguments of a program."""
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\necho "$1" > "$0.got"\ncp "${1#file://}" "$0.part"\n'
        'mv "$0.part" "$0.page"\n'
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")

    served = serve("--open")
    page = tmp_path / "browser.page"
    until(page.exists, "the browser was started")

    assert served.token not in (tmp_path / "browser.got").read_text()
    assert f"url={served.address}" in page.read_text()


def test_it_waits_for_a_bus_that_no_program_has_opened() -> None:
    with program("web", "--port", "0", "--json") as web:
        assert web.stdout is not None
        assert web.stderr is not None
        waits = web.stderr.readline()
        with Far("late", role="master") as late:
            late.started()
            served = Served(json.loads(web.stdout.readline())["address"])
            until(lambda: facts_of(served, "machine/late") != {}, "it is shown")
        web.send_signal(signal.SIGINT)
        assert web.wait(LIMIT_S) == 0

    assert waits.startswith("bus: no program of bus 'bus1' runs")
    assert waits.endswith("; waiting\n")


def test_relatives_are_those_that_subscribe(
    serve: Serve, alpha: Far, beta: Far
) -> None:
    alpha("bus.register('clock/a') and None")
    beta("bus.register('hand').subscribe('clock/*', print) and None")
    served = serve()

    def relatives(process: str, task: str) -> Any:
        return served.ask(f"/data/relatives?process=machine/{process}&task={task}")

    until(lambda: relatives("beta", "hand")[0] == 200, "the task is shown")
    assert relatives("alpha", "clock/a")[1]["subscribers"] == [
        ["machine/beta", "hand", "clock/*"]
    ]
    assert relatives("beta", "hand")[1]["notifiers"] == [["machine/alpha", "clock/a"]]
    assert relatives("beta", "gone")[0] == 404


@clause("BUS-PAGE-4")
def test_all_losses_of_a_process_that_joins_later_are_rows(
    serve: Serve, alpha: Far
) -> None:
    served = serve()
    with rounds(served) as lines, Far("late") as late:
        next(lines)
        late.tell(
            "[bus.register('shelf', capacity=2, overflow='drop-oldest'),"
            " [bus.command('shelf', n) for n in range(5)]] and None"
        )
        losses = (loss for line in lines for loss in line["losses"])
        loss = next(each for each in losses if each["task"] == "shelf")

    assert (loss["kind"], loss["count"]) == ("dropped", 3)


@clause("BUS-PAGE-5")
def test_a_stopped_process_delays_no_other_and_a_killed_one_is_lost(
    serve: Serve, alpha: Far, beta: Far
) -> None:
    served = serve()
    until(lambda: facts_of(served, "machine/beta") != {}, "beta is shown")

    beta.signal(signal.SIGSTOP)
    until(
        lambda: facts_of(served, "machine/beta")["state"] == "stopped",
        "beta is shown as stopped",
    )
    assert facts_of(served, "machine/alpha")["state"] == ""
    os.kill(beta.pid, signal.SIGKILL)
    until(
        lambda: facts_of(served, "machine/beta")["state"] == "lost",
        "beta is shown as lost",
    )

    with rounds(served) as lines:
        kinds = {each["kind"] for each in next(lines)["losses"]}
    assert {"stopped", "lost"} <= kinds


@clause("BUS-PAGE-5")
def test_a_process_that_leaves_in_order_is_not_lost(
    serve: Serve, alpha: Far, beta: Far
) -> None:
    served = serve()
    until(lambda: facts_of(served, "machine/beta") != {}, "beta is shown")

    beta("bus.close()")

    until(
        lambda: facts_of(served, "machine/beta")["state"] == "left",
        "beta is shown as left",
    )


def test_it_goes_on_when_the_bus_ends_and_another_one_begins(serve: Serve) -> None:
    with Far("one", role="master") as one:
        one.started()
        served = serve()
        until(lambda: facts_of(served, "machine/one") != {}, "it is shown")
    with Far("two", role="master") as two:
        two.started()
        two("counter('echo')")
        until(lambda: facts_of(served, "machine/two") != {}, "the next one is shown")

        assert facts_of(served, "machine/two")["role"] == "master"
        assert facts_of(served, "machine/one")["state"] == "lost"


def test_an_error_while_it_asks_ends_the_command(alpha: Far) -> None:
    fault = f"from bus.web.live import LiveSource\nLiveSource.run = None\n{CODE}"

    with start(fault, "web", *MACHINE, "--port", "0") as web:
        _, complaints = web.communicate(timeout=LIMIT_S)

    assert web.returncode == 1
    assert "TypeError" in complaints


def test_a_taken_port_is_named(alpha: Far) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        result = verb("web", "--port", port)

    assert result.exit_code == 1
    assert f"cannot listen at 127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--listen", "0.0.0.0"), "give the one IP address"),
        (("--listen", "::0"), "give the one IP address"),
        (("--listen", "localhost"), "give the one IP address"),
        (("--listen", "192.0.2.1"), "--network FILE with keys"),
        (("--listen", "2001:DB8::0A"), "--listen 2001:db8::a"),  # as browsers write it
        (("--journal", ".", "--bus", "house"), "--bus"),
        (("--journal", ".", "--allow-commands"), "--allow-commands"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: tuple[str, ...], remedy: str
) -> None:
    result = verb("web", *arguments)

    assert result.exit_code == 2
    assert remedy in result.stderr
