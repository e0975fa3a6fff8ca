"""Events in one process of a bus, and the journal entries for them.

A scenario is a name, an act, and the expected journal entries. The act gets a bench and
performs the named event with its tasks. The steps are then in the journal of the
process, in the words of `tests.kit.journals`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus import BusFullError
from tests.kit.serving import serve, settle
from tests.kit.tasks import ignore
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Overflow, Task

__all__ = ["SCENARIOS", "Bench"]

LONG_S: Final = 30.0


class Bench:
    """A recorded bus whose tasks are all in the thread of the test."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.a = self.task("a")

    def task(self, name: str, **options: Any) -> Task:
        """Register a task that replies with the payload it receives."""
        options.setdefault("on_command", lambda message: message.payload)
        return self.bus.register(name, thread=self.bus.here(), **options)

    def send(self, *payloads: object, to: str = "b") -> None:
        """Send commands as ``a``; a refusal is allowed."""
        for payload in payloads:
            with suppress(BusFullError):
                self.a.command(to, payload)

    def settle(self) -> None:
        """Serve until there is nothing to do."""
        settle(self.bus)


# The acts, by name, and the expected steps in the journal.


def command(bench: Bench) -> None:
    bench.task("b")
    bench.send(1, 2)
    bench.settle()


def call(bench: Bench) -> None:
    bench.task("b")
    bench.a.call("b", 1)


def call_another_thread(bench: Bench) -> None:
    bench.bus.register("b", on_command=lambda _: 1)
    bench.a.call("b", 1)


def call_direct(bench: Bench) -> None:
    """The caller waits in a thread of its own, and gets the answer there."""
    caller = bench.bus.register("c")
    bench.bus.register("b", thread=bench.bus.thread("far"), on_command=lambda _: 1)
    caller.call("b", 1)


def answer_too_late(bench: Bench) -> None:
    b = bench.task("b", on_command=None)
    handle = bench.a.command("b", on_response=ignore, timeout=LONG_S)
    question = b.receive()
    handle.cancel()
    question.respond(1)
    bench.settle()


def notify(bench: Bench) -> None:
    for name in ("b", "c"):
        bench.task(name).subscribe("a", ignore)
    bench.a.notify(1)
    bench.settle()


def notify_and_answer(bench: Bench) -> None:
    answers: list[object] = []
    for name in ("b", "c"):
        bench.task(name).subscribe("a", lambda message: message.respond(1))
    bench.a.notify(1, on_response=answers.append, timeout=LONG_S)
    serve(bench.bus, lambda: len(answers) == 2, "both have answered")


def notify_who_hears_no_more(bench: Bench) -> None:
    subscription = bench.task("b").subscribe("a", ignore)
    bench.a.notify(1)
    subscription.cancel()
    bench.settle()


def notify_more_than_fit(bench: Bench) -> None:
    bench.task("b").subscribe("a", ignore, capacity=1)
    bench.a.notify(1)
    bench.a.notify(2)
    bench.settle()


def expired(bench: Bench) -> None:
    bench.task("b")
    bench.a.command("b", 1, timeout=0)
    bench.a.command("b", 2, on_response=ignore, timeout=0)
    bench.settle()


def cancelled(bench: Bench) -> None:
    bench.task("b")
    bench.a.command("b", 1, on_response=ignore, timeout=LONG_S).cancel()
    bench.settle()


def overflowing(overflow: Overflow) -> Callable[[Bench], None]:
    """Return an act that sends more commands than there is room for."""

    def overflow_(bench: Bench) -> None:
        bench.task("b", overflow=overflow, capacity=2)
        bench.send(1, 2, 3, 4)
        bench.settle()
        bench.send(5)
        bench.settle()

    return overflow_


def dropped_by_another_thread(bench: Bench) -> None:
    bench.task("b", overflow="drop-oldest", capacity=1)
    with Threads() as threads:
        threads.start(bench.send, 1, 2)
    bench.settle()


def waits_for_a_name(bench: Bench) -> None:
    bench.send(1)
    bench.task("b")
    bench.send(2)
    bench.settle()


def waits_and_is_too_much(bench: Bench) -> None:
    """The next owner of the name has room for one; the second is already numbered."""
    bench.send(1, 2)
    bench.task("b", capacity=1)
    bench.settle()
    bench.send(3)
    bench.settle()


def nobody_takes_the_name(bench: Bench) -> None:
    lost: list[object] = []
    sender = bench.task("c", on_undelivered=lost.append)
    sender.command("b", 1, timeout=0)
    serve(bench.bus, lambda: lost, "it is reported")


def next_holder(bench: Bench) -> None:
    first = bench.task("b")
    bench.send(1, 2)
    first.deregister()
    bench.settle()
    bench.task("b")
    bench.send(3)
    bench.settle()


def left_for_good(bench: Bench) -> None:
    b = bench.task("b")
    bench.send(1)
    b.deregister(final=True)
    bench.settle()


def left_and_nobody_comes(bench: Bench) -> None:
    b = bench.task("b")
    bench.send(1)
    b.deregister()
    bench.settle()


def left_with_notifications(bench: Bench) -> None:
    b = bench.task("b")
    b.subscribe("a", ignore)
    bench.a.notify(1)
    b.deregister()
    bench.settle()


def moved(bench: Bench) -> None:
    b = bench.task("b")
    bench.send(1)
    b.move(bench.bus.thread("far"))
    bench.a.call("b", 2)


def received(bench: Bench) -> None:
    b = bench.task("b", on_command=None)
    bench.send(1, 2)
    b.receive()


def unread_at_close(bench: Bench) -> None:
    bench.task("b", on_command=None)
    bench.send(1)


DELIVERED_1_2 = """
    extract a b 1
    deliver a b 1
    extract a b 2
    deliver a b 2"""
KEPT = f"""
    command a b 1
    command a b 2{DELIVERED_1_2}
    command a b 3
    extract a b 3
    deliver a b 3"""


def called(by: str) -> str:
    """Return the journal entries of a call."""
    return f"""
    command {by} b 1
    extract {by} b 1
    deliver {by} b 1
    respond b {by} !1
    deliver b {by} !1"""


SCENARIOS: dict[str, tuple[Callable[[Bench], None], str]] = {
    "commands": (command, f"command a b 1\ncommand a b 2{DELIVERED_1_2}"),
    "a call in one thread": (call, called("a")),
    "a call to another thread": (call_another_thread, called("a")),
    "a call in neither": (call_direct, called("c")),
    "an answer that comes too late": (
        answer_too_late,
        """
        command a b 1
        extract a b 1
        deliver a b 1
        respond b a !1
        discard b a !1 unwanted
        """,
    ),
    "a notification to two": (
        notify,
        """
        notify a b *1
        notify a c *2
        extract a b *1
        deliver a b *1
        extract a c *2
        deliver a c *2
        """,
    ),
    "answers to a notification": (
        notify_and_answer,
        """
        notify a b *1
        notify a c *2
        extract a b *1
        deliver a b *1
        respond b a *!1
        extract a c *2
        deliver a c *2
        respond c a *!2
        deliver b a *!1
        deliver c a *!2
        """,
    ),
    "a notification to a task that no longer subscribes": (
        notify_who_hears_no_more,
        """
        notify a b *1
        extract a b *1
        discard a b *1 unwanted
        """,
    ),
    "more notifications than fit": (
        notify_more_than_fit,
        """
        notify a b *1
        notify a b *2
        discard a b *1 oldest
        extract a b *2
        deliver a b *2
        """,
    ),
    "expired": (
        expired,
        """
        command a b 1
        command a b 2
        extract a b 1
        undelivered a b 1 expired
        extract a b 2
        discard a b 2 expired
        """,
    ),
    "cancelled": (
        cancelled,
        """
        command a b 1
        extract a b 1
        discard a b 1 cancelled
        """,
    ),
    "too many, error": (overflowing("error"), KEPT),
    "too many, block": (overflowing("block"), KEPT),
    "too many, drop-newest": (overflowing("drop-newest"), KEPT),
    "too many, drop-oldest": (
        overflowing("drop-oldest"),
        """
        command a b 1
        command a b 2
        command a b 3
        undelivered a b 1 oldest
        command a b 4
        undelivered a b 2 oldest
        extract a b 3
        deliver a b 3
        extract a b 4
        deliver a b 4
        command a b 5
        extract a b 5
        deliver a b 5
        """,
    ),
    "too many, disconnect": (
        overflowing("disconnect"),
        """
        command a b 1
        command a b 2
        discard a b 1 addressee_gone
        discard a b 2 addressee_gone
        undelivered a b 1 addressee_gone
        undelivered a b 2 addressee_gone
        """,
    ),
    "dropped by another thread": (
        dropped_by_another_thread,
        """
        command a b 1
        command a b 2
        undelivered a b 1 oldest
        extract a b 2
        deliver a b 2
        """,
    ),
    "waits for a name": (
        waits_for_a_name,
        f"command a b 1\ncommand a b 2{DELIVERED_1_2}",
    ),
    "waits and is too much": (
        waits_and_is_too_much,
        """
        command a b 1
        extract a b 1
        deliver a b 1
        command a b 3
        extract a b 3
        deliver a b 3
        """,
    ),
    "nobody takes the name": (nobody_takes_the_name, ""),
    "the next holder of a name": (
        next_holder,
        f"""
        command a b 1
        command a b 2
        discard a b 1 addressee_gone
        discard a b 2 addressee_gone
        command a b' 1
        command a b' 2
        command a b' 3{DELIVERED_1_2.replace("a b", "a b'")}
        extract a b' 3
        deliver a b' 3
        """,
    ),
    "left for good": (
        left_for_good,
        """
        command a b 1
        discard a b 1 addressee_gone
        undelivered a b 1 addressee_gone
        """,
    ),
    "left, and nobody comes": (
        left_and_nobody_comes,
        """
        command a b 1
        discard a b 1 addressee_gone
        """,
    ),
    "left with notifications": (
        left_with_notifications,
        """
        notify a b *1
        discard a b *1 addressee_gone
        """,
    ),
    "moved": (
        moved,
        f"""
        command a b 1
        command a b 2{DELIVERED_1_2}
        respond b a !2
        deliver b a !2
        """,
    ),
    "received, and unread at the close": (
        received,
        """
        command a b 1
        command a b 2
        extract a b 1
        deliver a b 1
        discard a b 2 addressee_gone
        undelivered a b 2 addressee_gone
        """,
    ),
    "unread at the close": (
        unread_at_close,
        """
        command a b 1
        discard a b 1 addressee_gone
        undelivered a b 1 addressee_gone
        """,
    ),
}
