"""The page in a browser, about buses of real processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.support import until
from tests.web.conftest import Served, serving
from tests.web.test_recorded import record

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Serve = Callable[..., Served]
    Visit = Callable[..., Page]

pytest.importorskip("uvicorn", reason="needs uvicorn, of the extra")
pytestmark = [needs_unix_sockets, pytest.mark.deep]

HOSTILE = "<img src=x onerror=alert(1)>"


def line(page: Page, name: str, kind: str = "task") -> Locator:
    """Return the line of the tree with a name."""
    return page.locator(f'.row[data-kind={kind}][data-name="{name}"]')


def choose(page: Page, name: str, kind: str = "task") -> None:
    """Select a line, and wait for its details."""
    line(page, name, kind).first.click()
    until(lambda: is_chosen(page, name, kind), "its details are shown")


def is_chosen(page: Page, name: str, kind: str) -> bool:
    """Return True if the details are those of a line."""
    title = page.locator("#details h3")
    return title.count() == 1 and title.inner_text() == f"{kind} {name}"


def field(page: Page, name: str) -> str:
    """Return a field of the details."""
    return page.locator(f'#details dd[data-field="{name}"]').inner_text()


def shows(page: Page, name: str, value: str) -> None:
    """Wait until a field of the details has a value."""
    page.locator(f'#details dd[data-field="{name}"]', has_text=value).wait_for()
    until(lambda: field(page, name) == value, f"{name} is {value}")


def is_wide(page: Page) -> bool:
    """Return True if the page must be scrolled to the side."""
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth"
            " > document.documentElement.clientWidth"
        )
    )


@clause("BUS-PAGE-3")
def test_the_numbers_are_those_of_the_processes(
    serve: Serve, visit: Visit, alpha: Far, beta: Far
) -> None:
    beta("[bus.call('echo', n) for n in range(7)] and None")
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    alpha("[bus.command('shelf', n) for n in range(5)] and None")
    alpha("counter('hand')")
    alpha("made['hand'].task.subscribe('clock', print, capacity=3) and None")
    beta("bus.register('clock').wait_for_subscribers()")
    page = visit(serve().address)

    expected = alpha(
        "[[t.address.module, t.commands.delivered, t.commands.unread,"
        " t.commands.dropped, t.visibility.value, t.thread]"
        " for t in bus.inspect().tasks]"
    )
    assert {each[0] for each in expected} >= {"echo", "shelf", "hand"}
    for name, delivered, unread, dropped, visibility, thread in expected:
        choose(page, name)
        shows(page, "commands", str(delivered))
        shows(page, "unread", str(unread))
        shows(page, "dropped", str(dropped))
        assert field(page, "visibility") == visibility
        assert field(page, "thread") == thread
    sums = {
        each: page.locator(f'#sums dd[data-sum="{each}"]').inner_text()
        for each in ("processes", "unread")
    }
    assert sums == {"processes": "2", "unread": str(sum(each[2] for each in expected))}
    # As a later message changes them.
    beta("bus.call('echo', 8)")
    choose(page, "echo")
    shows(page, "commands", "8")


@clause("BUS-PAGE-4")
def test_losses_are_rows_with_the_rule_and_the_remedy(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    page = visit(serve().address)
    line(page, "shelf").wait_for()
    page.locator("#status", has_text="live").wait_for()

    alpha("[bus.command('shelf', n) for n in range(5)] and None")

    row = page.locator("#losses tr")
    row.wait_for()
    assert row.get_attribute("data-count") == "3"
    text = row.inner_text()
    for part in ("dropped", "3 commands for shelf", "BUS-FLOW-6", "raise capacity"):
        assert part in text
    row.locator("button").click()
    until(lambda: is_chosen(page, "shelf", "task"), "the task is selected")


def test_hostile_names_and_payloads_stay_text(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    alpha(f"bus.thread({HOSTILE!r}) and None")
    page = visit(serve("--allow-commands").address)

    choose(page, HOSTILE, "thread")
    page.fill("#command-to", "echo")
    page.fill("#command-payload", f'"{HOSTILE}"')
    page.click("#command button")
    page.locator("#command-answer", has_text="img").wait_for()

    assert page.locator("#command-answer").inner_text() == f'"{HOSTILE}"'
    assert page.locator("img").count() == 0


def test_no_text_can_become_html(
    serve: Serve, visit: Visit, alpha: Far, errors: list[str]
) -> None:
    page = visit(serve().address)

    refused = page.evaluate(
        """() => {
            try { document.body.innerHTML = "<img src=x>"; return false; }
            catch (error) { return error instanceof TypeError; }
        }"""
    )
    assert refused
    [error] = errors
    assert "TrustedHTML" in error
    errors.clear()


def test_a_page_without_the_token_says_what_to_open(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    page = visit(serve().address.partition("#")[0])

    assert "token" in page.locator("#problem").inner_text()
    assert page.locator(".row").count() == 0


def test_a_thousand_tasks_are_folded_searched_and_filtered(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    alpha("[bus.register(f'room/{n}/lamp') for n in range(1000)] and None")
    alpha("bus.register('shelf', capacity=1, overflow='drop-oldest') and None")
    alpha("[bus.command('shelf', n) for n in range(3)] and None")
    page = visit(serve().address)

    process = line(page, "alpha", "process")
    process.wait_for()
    assert process.get_attribute("aria-expanded") == "false"
    assert page.locator(".row[data-kind=task]").count() == 0

    page.keyboard.press("/")
    page.keyboard.type("room/77")
    until(lambda: page.locator("#shown").inner_text() == "11 of 1,003 tasks", "found")
    assert line(page, "room/777/lamp").is_visible()

    page.fill("#search", "")
    process.locator(".fold").click()
    line(page, "default", "thread").locator(".fold").click()
    line(page, "room/0/lamp").wait_for()
    assert page.locator(".row").count() < 100  # only those in sight

    page.select_option("#filter", "losing")
    line(page, "shelf").wait_for()
    assert page.locator(".row[data-kind=task]").count() == 1


def test_the_tree_is_used_by_keys_and_read_aloud(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    alpha("bus.call('echo', 1) and None")
    page = visit(serve().address)
    line(page, "echo").wait_for()

    page.locator("#tree").focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    process = line(page, "alpha", "process")
    assert process.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    until(lambda: is_chosen(page, "alpha", "process"), "it is selected")
    assert process.get_attribute("aria-selected") == "true"
    active = page.locator("#tree").get_attribute("aria-activedescendant")
    assert active == process.get_attribute("id")
    heard = page.locator("body").aria_snapshot()
    for part in (
        'heading "bus1 on machine" [level=1]',
        'searchbox "Search names"',
        "status: live",
        'tree "Machines, processes, threads, tasks',
        'treeitem "machine machine" [level=1]',
        'treeitem "alpha, master',
        'slider "Time: drag back',
    ):
        assert part in heard


@clause("BUS-PAGE-3")
def test_the_bar_shows_the_bus_as_it_was(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    page = visit(serve().address)
    choose(page, "echo")
    shows(page, "commands", "0")
    bar = page.locator("#bar")
    place = int(bar.get_attribute("max") or 0)  # the task is in this round

    alpha("[bus.call('echo', n) for n in range(3)] and None")
    alpha("counter('new')")
    shows(page, "commands", "3")
    line(page, "new").wait_for()
    bar.evaluate(
        "(bar, place) => { bar.value = place; bar.dispatchEvent(new Event('input')); }",
        place,
    )

    shows(page, "commands", "0")
    assert page.locator("#status").inner_text() == "as it was"
    until(lambda: line(page, "new").count() == 0, "the new task is not shown")
    page.click("#live")
    shows(page, "commands", "3")
    assert page.locator("#status").inner_text() == "live"


@pytest.mark.parametrize("width", [390, 1200, 3840])
def test_it_fits_each_width(serve: Serve, visit: Visit, alpha: Far, width: int) -> None:
    alpha(f"counter('{'long/' * 20}name')")
    alpha("bus.register('shelf', capacity=1, overflow='drop-oldest') and None")
    page = visit(serve().address, viewport={"width": width, "height": 900})
    choose(page, "echo")
    alpha("[bus.command('shelf', n) for n in range(3)] and None")
    page.locator("#losses tr").wait_for()

    assert not is_wide(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_button(
    serve: Serve, visit: Visit, alpha: Far, scheme: str
) -> None:
    page = visit(serve().address, color_scheme=scheme)

    def brightness() -> int:
        colour = "getComputedStyle(document.body).backgroundColor"
        text = page.evaluate(f"{colour}.match(/\\d+/g).slice(0, 3).map(Number)")
        return sum(map(int, text))

    assert (brightness() > 380) == (scheme == "light")
    page.click("#theme")
    assert (brightness() > 380) == (scheme == "dark")


def test_a_command_is_sent_and_its_answer_shown(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    page = visit(serve("--allow-commands").address)
    choose(page, "echo")
    assert page.locator("#command-to").input_value() == "echo"

    page.fill("#command-payload", '{"celsius": 17}')
    page.click("#command button")
    page.locator("#command-answer", has_text="celsius").wait_for()
    page.fill("#command-payload", "{")
    page.click("#command button")

    page.locator("#command-answer", has_text="no JSON").wait_for()
    assert alpha("made['echo'].got") == [{"celsius": 17}]


def test_no_form_is_shown_without_commands(
    serve: Serve, visit: Visit, alpha: Far
) -> None:
    page = visit(serve().address)
    choose(page, "echo")

    assert page.locator("#command").is_hidden()


def test_a_stopped_process_is_seen_at_a_glance(
    serve: Serve, visit: Visit, alpha: Far, beta: Far
) -> None:
    page = visit(serve().address)
    line(page, "beta", "process").wait_for()

    beta.signal(signal.SIGSTOP)

    page.locator('.row[data-name="beta"]', has_text="stopped").wait_for()
    gone = page.locator('#sums dd[data-sum="stopped or lost"]')
    until(lambda: gone.inner_text() == "1", "it is counted")
    beta.signal(signal.SIGCONT)
    until(lambda: gone.inner_text() == "0", "it answers again")


def test_a_process_that_leaves_is_counted_no_more_and_is_no_trouble(
    serve: Serve, visit: Visit, alpha: Far, beta: Far
) -> None:
    page = visit(serve().address)
    sums = {
        name: page.locator(f'#sums dd[data-sum="{name}"]')
        for name in ("processes", "stopped or lost")
    }
    until(lambda: sums["processes"].inner_text() == "2", "both are shown")

    beta("bus.close()")

    page.locator('.row[data-name="beta"]', has_text="left").wait_for()
    until(lambda: sums["processes"].inner_text() == "1", "one is left")
    assert sums["stopped or lost"].inner_text() == "0"


def test_the_page_shows_that_its_server_has_ended(
    visit: Visit, alpha: Far, errors: list[str]
) -> None:
    with serving() as served:
        page = visit(served.address)
        choose(page, "echo")
    page.locator("#status", has_text="bus web has ended").wait_for()

    line(page, "default", "thread").first.click()  # it draws all parts again

    until(lambda: is_chosen(page, "default", "thread"), "its details are shown")
    assert "bus web has ended" in page.locator("#status").inner_text()
    assert all("ERR_" in each for each in errors)  # of the browser
    errors.clear()


def test_a_recording_is_shown_with_the_way_of_each_loss(
    serve: Serve, visit: Visit, tmp_path: Path
) -> None:
    record(tmp_path / "journals")
    page = visit(serve("--journal", str(tmp_path / "journals")).address)

    page.locator("#status", has_text="a recording").wait_for()
    row = page.locator("#losses tr[data-kind=dropped]").first
    row.get_by_role("button").first.click()
    page.locator("#way li", has_text="accepted for shelf").wait_for()
    choose(page, "echo")
    shows(page, "commands", "5")
    page.locator("#bar").focus()
    page.keyboard.press("Home")

    until(lambda: line(page, "shelf").count() == 0, "it was not registered yet")
    page.click("#live")
    line(page, "shelf").wait_for()
