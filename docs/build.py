"""Renew the parts of pages that come from the code, and make the site.

``python docs/build.py`` does both. A page has a place for each such part, between two
comments; the text there is replaced. These parts are committed, since people also read
the pages in the repository. A test compares them with the code. The site goes to
``site/`` and is not committed.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bus import BusConfig, Service, Task, errors
from bus.api.receiver import Receiver, Responder
from bus.features.memory import frames as memory_frames
from bus.features.subscriptions import frames as subscription_frames
from bus.kernel import constants, wire
from bus.kernel.wire import frames as kernel_frames
from bus.model.config import settings_table
from bus.process.inbox import Inbox
from bus.process.router import Router
from bus.process.thread_manager import ThreadManager
from bus.support import CAPABILITIES, FACILITIES
from bus.testing import memory_bus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType

    from bus import Bus, BusSnapshot, Incoming, TaskInfo

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
SITE: Final = ROOT / "site"
WIDTH: Final = 78
TOOLS: Final = ("sphinx", "furo", "myst_parser")

_PLACE: Final = re.compile(
    r"(<!-- made by docs/build\.py: ([\w-]+) -->\n).*?(<!-- end -->)",
    re.DOTALL,
)


# Settings and constants.


def limits() -> str:
    """Every setting of a bus, under the headings that stand in its class."""
    lines: list[str] = []
    headings = _headings()
    for setting in settings_table():
        if setting.name in headings:
            lines += [
                *([""] if lines else []),
                f"## {headings[setting.name]}",
                "",
                "| setting | default | meaning | clause |",
                "| --- | ---: | --- | --- |",
            ]
        value = _amount(setting.default, setting.unit)
        lines.append(
            f"| `{setting.name}` | {value} | {setting.meaning} | {setting.clause} |"
        )
    return "\n".join(lines)


def fixed() -> str:
    """Every constant of `bus.kernel.constants`."""
    lines = ["| constant | value |", "| --- | ---: |"]
    for name, value in vars(constants).items():
        if name.isupper():
            unit = "bytes" if "BYTES" in name else "s" if name.endswith("_S") else ""
            lines.append(f"| `{name}` | {_amount(value, unit)} |")
    return "\n".join(lines)


def _headings() -> dict[str, str]:
    """The comments between the fields of `BusConfig`, by the field that follows."""
    source = inspect.getsource(BusConfig)
    found = re.findall(r"^    # (.+)\.\n    (\w+): ", source, re.MULTILINE)
    return {field: heading for heading, field in found}


def _amount(value: object, unit: str) -> str:
    if unit == "bytes" and isinstance(value, int):
        for size, name in ((2**20, "MiB"), (2**10, "KiB")):
            if value % size == 0:
                return f"{value // size} {name}"
    if isinstance(value, (str, bool)):
        return f"`{value}`"
    if isinstance(value, (int, float)):
        return f"{value:,} {unit}".rstrip()
    return "none"


def systems() -> str:
    """Return the table of the capabilities of each system."""
    lines = [
        f"| | {' | '.join(FACILITIES)} |",
        f"| --- |{' --- |' * len(FACILITIES)}",
    ]
    for each in CAPABILITIES:
        cells = " | ".join(each.on(there) for there in FACILITIES.values())
        lines.append(f"| {each.name} | {cells} |")
    return "\n".join(lines)


# Errors and frames.


def error_tree() -> str:
    """Return the exceptions of the bus, grouped by the person who can act on them."""
    text = inspect.getdoc(errors) or ""
    tree = text.partition("::\n\n")[2].partition("\n\nWrong arguments")[0]
    return _block(inspect.cleandoc(tree))


def frames() -> str:
    """Return the table of the frames between processes."""
    lines = ["| | frame | meaning |", "| ---: | --- | --- |"]
    kinds: dict[wire.FrameType, type] = {
        each.type: each
        for module in (kernel_frames, memory_frames, subscription_frames)
        for each in (getattr(module, name) for name in module.__all__)
        if hasattr(each, "type")  # not a class of several frames
    }
    kinds[wire.FrameType.MSG] = wire.Batch
    for number in wire.FrameType:
        meaning = (inspect.getdoc(kinds[number]) or "").partition("\n\n")[0]
        meaning = " ".join(meaning.split())
        lines.append(f"| {number.value} | {number.name} | {meaning} |")
    return "\n".join(lines)


# One process, drawn as it stands.


def process() -> str:
    """Draw a small bus with a message at each place, as `Bus.inspect` shows it."""
    with memory_bus("bus1", process="cafe", machine="corner") as bus:
        hall, kitchen = bus.here("hall"), bus.thread("kitchen")
        # The thread stands still while it is looked at.
        held, go = threading.Event(), threading.Event()
        kitchen.call_soon(held.set)
        kitchen.call_soon(go.wait)
        held.wait()
        till = bus.register("till", thread=hall)
        bus.register("board", thread=hall).subscribe("cook", id)
        cook = bus.register("cook", thread=kitchen)
        bus.register("oven", thread=kitchen)
        for order in ("soup", "toast"):
            till.command("cook", order)
        till.command("baker", "bread")
        cook.notify("the kitchen is open")
        picture = draw(bus.inspect())
        go.set()
        for thread in (hall, kitchen):
            thread.stop(final=True)
    return _block(picture)


def draw(seen: BusSnapshot) -> str:
    """Draw one process of a bus."""
    routes = [f"{each.address.module} -> {each.thread}" for each in seen.tasks]
    parked = [f"{name}: {_counted(count)}" for name, count in seen.parked.items()]
    title = f"process {seen.process!r} on machine {seen.machine!r}, bus {seen.bus!r}"
    manager = [*_listed("routing table", routes), *_listed("parked list", parked)]
    threads = []
    for thread in seen.threads:
        hosted = [each for each in seen.tasks if each.thread == thread.name]
        lines = ["inbox           other threads post here: one lock"]
        for each in hosted:
            lines += _fifos(each)
        threads += _box(f"thread manager of {thread.name!r}", lines, WIDTH - 4)
    inner = [*_box("process manager", manager, WIDTH - 4), *threads]
    return "\n".join(_box(title, inner, WIDTH))


def _listed(title: str, entries: Iterable[str]) -> list[str]:
    lines = [f"{title:<15} {entry}" for entry in entries] or [title]
    return lines[:1] + [line.replace(title, " " * len(title)) for line in lines[1:]]


def _fifos(task: TaskInfo) -> Iterator[str]:
    name = task.address.module
    yield f"FIFO of {name:<7} {_counted(task.commands.unread)} unread"
    for each in task.subscriptions:
        unread = _counted(each.notifications.unread, "notification")
        yield f"{'':15} {unread} of {each.specification} unread"


def _counted(number: int, noun: str = "message") -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _box(title: str, lines: Iterable[str], width: int) -> list[str]:
    inner = width - 4
    top = f"+-- {title} ".ljust(width - 1, "-") + "+"
    return [top, *(f"| {line:<{inner}} |" for line in lines), f"+{'-' * (width - 2)}+"]


# The calls on the way of a message, recorded in a real run.

_ON_THE_WAY: Final[dict[Callable[..., Any], str]] = {
    Task.command: "Task.command",
    Task.notify: "Task.notify",
    Router.send: "Router.send",
    Router.post: "Router.post",
    ThreadManager.post: "ThreadManager.post",
    ThreadManager._post_inside: "into the FIFO, no lock",
    Inbox.offer: "into the inbox",
    Receiver.handle: "Receiver.handle",
    Responder.respond: "Responder.respond",
    Service._pass_on: "Service: makes a notification",
}


def way_in_one_thread() -> str:
    """A command and its answer between two tasks of one thread."""
    return _block(_watched(lambda bus: _ask(bus, apart=False)))


def way_between_threads() -> str:
    """The same between two threads."""
    return _block(_watched(lambda bus: _ask(bus, apart=True)))


def way_through_a_service() -> str:
    """A command to a service, and the notifications of its readers."""

    def publish(bus: Bus) -> None:
        here = bus.here("producer")
        producer = bus.register("producer", thread=here)
        there = bus.thread("service")
        heard: list[Incoming] = []
        bus.register("reader", thread=here).subscribe("weather", heard.append)
        with Service(bus, "weather", thread=there):
            producer.command("weather", "rain")
            while not heard:
                here.poll(None)

    return _block(_watched(publish))


def _ask(bus: Bus, *, apart: bool) -> None:
    here = bus.here("asks")
    there = bus.thread("answers") if apart else here
    bus.register("answers", thread=there, on_command=lambda message: message.payload)
    heard: list[object] = []
    asker = bus.register("asks", thread=here)
    asker.command("answers", 1, on_response=heard.append)
    while not heard:
        here.poll(None)


def _watched(run: Callable[[Bus], None]) -> str:
    """Run something on a bus; draw its calls, a column for each thread."""
    watched: dict[CodeType, str] = {
        inspect.unwrap(function).__code__: label
        for function, label in _ON_THE_WAY.items()
    }
    calls: list[tuple[str, str, int]] = []
    depths: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: object) -> None:
        label = watched.get(frame.f_code)
        if label is None:
            return
        thread = threading.current_thread().name.removeprefix("bus1 ")
        if event == "call":
            calls.append((thread, label, depths[thread]))
            depths[thread] += 1
        elif event == "return":
            depths[thread] -= 1

    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(watch)
    try:
        with memory_bus() as bus:
            sys.setprofile(watch)
            try:
                run(bus)
            finally:
                sys.setprofile(before[0])
    finally:
        threading.setprofile(before[1])
    return _columns(calls)


def _columns(calls: list[tuple[str, str, int]]) -> str:
    main = threading.main_thread().name
    threads = list(dict.fromkeys(thread for thread, _, _ in calls))
    wide = WIDTH // max(2, len(threads))
    named = {
        thread: "the calling thread" if thread == main else f"thread {thread!r}"
        for thread in threads
    }
    rows = ["".join(f"{named[thread]:<{wide}}" for thread in threads)]
    rows.append("".join(f"{'-' * len(named[thread]):<{wide}}" for thread in threads))
    after = [*(thread for thread, _, _ in calls[1:]), calls[-1][0]]
    for (thread, label, depth), other in zip(calls, after, strict=True):
        here, there = threads.index(thread) * wide, threads.index(other) * wide
        row = f"{'':{here + 2 * depth}}{label}"
        if there > here:
            row = f"{row} ".ljust(there - 2, "-") + ">"
        elif there < here:
            begin = there + len(named[other]) + 1
            row = (
                row[:begin] + "<".ljust(here + 2 * depth - begin - 1, "-") + f" {label}"
            )
        rows.append(row)
    return "\n".join(row.rstrip() for row in rows)


# The control blocks of the pool, in the steps of the example.

STEPS: Final = 7


def blocks_step(number: int) -> str:
    """One step of `examples/control_blocks.py`: the blocks after it."""
    found = runpy.run_path(str(HERE.parent / "examples" / "control_blocks.py"))
    title, drawing = found["steps"]()[number - 1]
    return _block(f"{number}. {title}\n\n{drawing}")


# Pages.

PARTS: Final[dict[str, Callable[[], str]]] = {
    "limits": limits,
    "systems": systems,
    "constants": fixed,
    "error-tree": error_tree,
    "frames": frames,
    "process": process,
    "way-in-one-thread": way_in_one_thread,
    "way-between-threads": way_between_threads,
    "way-through-a-service": way_through_a_service,
    **{
        f"blocks-step-{number}": partial(blocks_step, number)
        for number in range(1, STEPS + 1)
    },
}


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def pages() -> Iterator[Path]:
    """Every page below ``docs`` that has a place for something made."""
    for page in sorted(HERE.rglob("*.md")):
        if _PLACE.search(page.read_text(encoding="utf-8")):
            yield page


def made(text: str) -> str:
    """Return a page with everything in its place as it would be made now.

    Raises:
        KeyError: the page has a place for a part that is not in `PARTS`.
    """
    return _PLACE.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}\n{match[3]}", text)


def renew() -> None:
    """Replace each part that differs from the code."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = made(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"made anew: {page.relative_to(ROOT)}")


def make_site() -> None:
    """Write the site; any warning, such as a link without a target, is an error.

    The pages link to one another within the whole repository, so its root is the
    source, and ``conf.py`` chooses the pages.
    """
    shutil.rmtree(SITE, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-c", str(HERE)]
    with tempfile.TemporaryDirectory() as parsed:  # no reader needs it
        subprocess.run(
            [sys.executable, "-m", "sphinx", *options, "-d", parsed, ROOT, SITE],
            check=True,
        )
    # A copy, not a redirection: the README is the first page under both names.
    shutil.copy(SITE / "README.html", SITE / "index.html")
    print(f"made: {SITE / 'index.html'}")


def main() -> None:
    """Renew the parts, then make the site."""
    renew()
    if missing := [name for name in TOOLS if importlib.util.find_spec(name) is None]:
        sys.exit(
            f"cannot make the site: {', '.join(missing)} not installed;"
            ' run: pip install -e ".[docs]"'
        )
    try:
        make_site()
    except subprocess.CalledProcessError:
        sys.exit("cannot make the site: Sphinx reports the reasons above")


if __name__ == "__main__":
    main()
