"""``bus metrics``: all processes of a machine, while they run and while they die."""

from __future__ import annotations

import itertools
import json
import signal
import socket
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.cli.verbs import program, verb
from tests.features.metrics.support import scraped
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.features.metrics.support import Scrape


@contextmanager
def served(*arguments: str, complains: bool = False) -> Iterator[str]:
    """Run it at a free port; yield the URL, and end it by Ctrl-C.

    complains: True if it prints lines on stderr.
    """
    with program("metrics", "--port", "0", "--json", *arguments) as serving:
        assert serving.stdout is not None
        try:
            yield json.loads(serving.stdout.readline())["url"]
        finally:
            serving.send_signal(signal.SIGINT)
        _, complaints = serving.communicate(timeout=LIMIT_S)
        assert (serving.returncode, bool(complaints)) == (0, complains), complaints


def test_a_scrape_has_all_processes_and_what_they_have_counted(
    alpha: Far, beta: Far
) -> None:
    beta("[bus.call('echo', n) for n in range(7)] and None")
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    alpha("[bus.command('shelf', n) for n in range(5)] and None")

    with served() as url:
        told = scraped(url)

    accepted = "bus_messages_accepted_total"
    assert told.processes == {"alpha", "beta"}
    assert told("bus_process_is_master", process="alpha") == 1
    assert told("bus_process_is_master", process="beta") == 0
    assert told(accepted, process="alpha", kind="command") == 12
    assert told(accepted, process="beta", kind="command") == 0
    drops = told.find("bus_messages_dropped_total", process="alpha", kind="command")
    assert sum(drops) == 3
    assert told("bus_unread_messages", process="alpha", kind="command") == 2
    assert told("bus_remote_messages_taken_total", process="beta") >= 7
    assert sum(told.find("bus_links", process="beta")) == 1
    assert told.unbalanced() == []


@pytest.mark.usefixtures("beta")
def test_a_link_has_series_of_its_own_on_request(alpha: Far) -> None:
    with served("--per-task") as url:
        told = scraped(url)

    assert alpha("bus.process") == "alpha"
    assert told("bus_link_unresponsive", process="alpha", peer_process="beta") == 0
    assert told("bus_task_commands_accepted_total", task="echo") == 0


@pytest.mark.deep
def test_a_process_that_does_not_answer_is_down(alpha: Far, beta: Far) -> None:
    with served("--timeout", "0.3") as url:
        beta.signal(signal.SIGSTOP)
        stopped = scraped(url)
        beta.signal(signal.SIGCONT)
        until(lambda: scraped(url).processes == {"alpha", "beta"}, "it is up again")

    assert alpha("bus.process") == "alpha"
    assert stopped("bus_process_up", process="beta") == 0
    assert stopped.find("bus_tasks", process="beta") == []


@pytest.mark.deep
def test_a_master_that_does_not_answer_is_down_and_the_others_are_up(
    alpha: Far, beta: Far
) -> None:
    with served("--timeout", "0.3") as url:
        both = scraped(url)
        alpha.signal(signal.SIGSTOP)
        stopped = scraped(url)
        alpha.signal(signal.SIGCONT)
        until(lambda: scraped(url).processes == {"alpha", "beta"}, "it is up again")

    assert both("bus_process_up", process="alpha") == 1
    assert stopped("bus_process_up", process="alpha") == 0
    assert stopped("bus_process_up", process="beta") == 1
    assert stopped("bus_process_is_master", process="beta") == 0
    assert beta("bus.process") == "beta"


def test_a_scrape_may_ask_for_some_metrics_only(alpha: Far) -> None:
    with served() as url:
        told = scraped(f"{url}?name[]=bus_tasks&name[]=bus_links")

    assert told("bus_tasks") == alpha("len(bus.tasks())")
    assert told.series == 3  # and the links of both kinds


@pytest.mark.deep
def test_it_ends_in_the_middle_of_a_scrape(alpha: Far, beta: Far) -> None:
    answered = (
        "any(each.process.startswith('cli') and each.sent.taken"
        " for each in bus.inspect().peers)"
    )
    serving = program("metrics", "--port", "0", "--json", "--timeout", "600")
    with serving, Threads() as threads:
        assert serving.stdout is not None
        url = json.loads(serving.stdout.readline())["url"]
        beta.signal(signal.SIGSTOP)
        scraping = threads.start(_is_refused, url)
        until(lambda: alpha(answered), "the scrape waits for the other process")
        serving.send_signal(signal.SIGTERM)
        _, complaints = serving.communicate(timeout=LIMIT_S)
        assert (serving.returncode, complaints) == (0, "")
        assert scraping.result()
        beta.signal(signal.SIGCONT)


def _is_refused(url: str) -> bool:
    try:
        return scraped(url).series == 0
    except (OSError, HTTPException):
        return True


@pytest.mark.deep
@clause("BUS-FLOW-7", "BUS-FLOW-9")
def test_the_accounts_balance_at_each_scrape_while_processes_are_killed(
    alpha: Far,
) -> None:
    """Each round, a process stops with messages on the way to it, and is killed."""
    scrapes: list[Scrape] = []
    with served("--timeout", "0.3") as url, ExitStack() as stack:
        one, two = (stack.enter_context(Far(name)) for name in ("one", "two"))
        _prepare(one.started())
        _prepare(two.started())
        for _ in range(4):
            with Far("victim") as victim:
                _prepare(victim.started())
                one(_burst("one", "victim"))  # the name is resolved
                for far, to in ((one, "two"), (two, "one"), (victim, "one")):
                    far.tell(_burst(far.name, "echo", "victim", to))
                scrapes += [scraped(url) for _ in range(3)]
                victim.signal(signal.SIGSTOP)
                for far in (one, two):
                    far.answer()
                    far.tell(_burst(far.name, "echo", "victim"))
                scrapes.append(scraped(url))
            scrapes += [scraped(url) for _ in range(3)]
            for far in (one, two):
                far.answer()
        scrapes.append(scraped(url))

    for before, after in itertools.pairwise(scrapes):
        assert after.unbalanced() == []
        fallen = after.fallen(before)
        assert [each for each in fallen if "'victim'" not in each] == []
    assert scrapes[-1].processes == {"alpha", "one", "two"}
    doubt = scrapes[-1].find("bus_remote_messages_in_doubt_total")
    assert sum(doubt) > 0
    assert alpha("bus.process") == "alpha"


def _prepare(far: Far) -> None:
    """Register a task that drops its oldest messages, and subscribe to all tasks."""
    drops = "capacity=8, overflow='drop-oldest'"
    far(f"counter('{far.name}', {drops})")
    far(f"made['{far.name}'].task.subscribe('*', lambda m: None, {drops}) and None")


def _burst(name: str, *to: str) -> str:
    return f"burst('{name}', 200, {to})"


@pytest.mark.deep
@pytest.mark.usefixtures("beta")
def test_it_goes_on_when_the_master_is_lost(alpha: Far) -> None:
    with served() as url:
        assert scraped(url)("bus_process_is_master", process="alpha") == 1
        alpha.kill()
        until(lambda: scraped(url).processes == {"beta"}, "the other is master")
        told = scraped(url)

    assert told("bus_process_is_master", process="beta") == 1
    # Each scrape has counted one answer of each process; the lost one has no series.
    name = "bus_query_duration_seconds"
    assert told(f"{name}_count", process="beta") >= 3
    assert told(f"{name}_sum", process="beta") > 0
    assert told.find(f"{name}_count", process="alpha") == []


@needs_unix_sockets
def test_it_waits_for_a_bus_and_serves_no_series_without_one() -> None:
    with served(complains=True) as url:
        before = scraped(url).series
        with Far("late", role="master") as late:
            late.started()
            until(lambda: scraped(url).processes == {"late"}, "it is found")

    assert before == 0


@pytest.mark.usefixtures("alpha")
def test_clients_that_say_nothing_delay_no_other() -> None:
    """Each may be silent for five seconds: in a row, for longer than `LIMIT_S`."""
    with served() as url, ExitStack() as stack:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for _ in range(40):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        told = scraped(url)

    assert told.processes == {"alpha"}


@pytest.mark.usefixtures("alpha")
def test_a_port_in_use_is_reported_in_one_line_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = verb("metrics", "--port", port)

    assert result.exit_code == 4
    assert f"cannot listen at 127.0.0.1, port {port}: " in result.stderr
    assert "choose another --port or --listen" in result.stderr
    assert result.stderr.count("\n") == 1
