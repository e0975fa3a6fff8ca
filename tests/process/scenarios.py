"""Events between two processes of a bus, and the journal entries for them.

A scenario is a name, an act, and the expected journal entries. The act gets the two
processes and performs the named event. The steps are then in the journals of the near
and the far process, in the words of `tests.kit.journals`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.journal.writer import Journal
from tests.journal.telling import SMALL
from tests.kit.buses import PATIENT, processes
from tests.kit.comm_threads import comm_of, held, settled
from tests.kit.tasks import Reader, ignore
from tests.process.processes import subscribed
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus import Bus, Undelivered

__all__ = ["MACHINE", "SCENARIOS", "Pair", "pair", "unread"]

MACHINE: Final = "machine"  # of all processes here, and in their journals


@attrs.frozen
class Pair:
    """Two processes; ``a`` is a task of the near one, ``lost`` its lost messages."""

    near: Bus
    far: Bus
    lost: list[Undelivered] = attrs.field(factory=list)

    def start(self) -> Any:
        """Register task ``a``."""
        return self.near.register("a", on_undelivered=self.lost.append)


@contextmanager
def pair(folder: Path, *, recorded: str = "near far", **limits: Any) -> Iterator[Pair]:
    """Yield two processes, some of them recorded."""
    config = attrs.evolve(PATIENT, **limits)
    with ExitStack() as stack:
        journals = {
            name: stack.enter_context(
                Journal(folder / name, machine=MACHINE, segment_bytes=SMALL)
            )
            for name in recorded.split()
        }
        with processes("near far", config, journals) as [near, far]:
            yield Pair(near, far)


def unread(bus: Bus, count: int) -> None:
    """Wait until the only task of a process has `count` unread commands."""
    until(
        lambda: [each.commands.unread for each in bus.tasks()] == [count],
        f"{count} commands are there",
    )


# The acts, by name, and the expected steps in the two journals.


def commands_there(pair: Pair) -> None:
    reader = Reader(pair.far, "b")
    a = pair.start()
    a.command("b", 1)
    a.command("b", 2)
    reader.has(2)


def commands_back(pair: Pair) -> None:
    reader = Reader(pair.near, "a")
    pair.far.register("b").command("a", 1)
    reader.has(1)


def call(pair: Pair) -> None:
    Reader(pair.far, "b")
    assert pair.start().call("b", 1) == 1


def call_in_vain(pair: Pair) -> None:
    """The asker has cancelled the question when the answer arrives."""
    b = pair.far.register("b", thread=pair.far.here())
    a = pair.start()
    handle = a.command("b", on_response=ignore, timeout=LIMIT_S)
    question = b.receive(LIMIT_S)
    handle.cancel()
    question.respond(1)
    until(lambda: late(a) == 1, "the answer has come")


def late(task: Any) -> int:
    """Return how many answers arrived after their question was cancelled."""
    count: int = task._receiver.asker.late
    return count


def notify(pair: Pair) -> None:
    got: list[object] = []
    a = pair.start()
    for name in ("b", "c"):
        pair.far.register(name).subscribe("a", got.append)
    subscribed(pair.near, "a")
    a.notify(1)
    until(lambda: len(got) == 2, "both have received it")


def notify_here_and_there(pair: Pair) -> None:
    got: list[object] = []
    a = pair.start()
    pair.near.register("d").subscribe("a", got.append)
    pair.far.register("b").subscribe("a", lambda message: message.respond(1))
    subscribed(pair.near, "a")
    a.notify(1, on_response=got.append, timeout=LIMIT_S)
    until(lambda: len(got) == 2, "one has received it, one has answered")


def left_and_came_here(pair: Pair) -> None:
    """Unread messages go to the next owner of the name, in another process."""
    b = pair.far.register("b")
    a = pair.start()
    a.command("b", 1)
    a.command("b", 2)
    unread(pair.far, 2)
    b.deregister()
    owners = comm_of(pair.near).remote.name_registry.users.owners
    until(lambda: "b" not in dict(owners()), "it is known to be gone")
    reader = Reader(pair.near, "b")
    reader.has(2)
    assert reader.got == [1, 2]


def left_for_good(pair: Pair) -> None:
    b = pair.far.register("b")
    pair.start().command("b", 1)
    unread(pair.far, 1)
    b.deregister(final=True)
    until(lambda: len(pair.lost) == 1, "it is reported")


def process_leaves(pair: Pair) -> None:
    """It has read the first message, and leaves with the second one unread."""
    b = pair.far.register("b", thread=pair.far.here())
    a = pair.start()
    a.command("b", 1)
    a.command("b", 2)
    unread(pair.far, 2)
    b.receive(LIMIT_S)
    pair.far.close(drain=0)
    until(lambda: len(pair.lost) == 1, "one is lost")


def asker_leaves(pair: Pair) -> None:
    """The asker leaves while the answer is on its way."""
    b = pair.far.register("b", thread=pair.far.here())
    a = pair.start()
    a.command("b", on_response=ignore, timeout=LIMIT_S)
    question = b.receive(LIMIT_S)
    with held(pair.near):
        a.deregister()
        until(lambda: a._entry.host is None, "it has left")
        question.respond(1)
        settled(pair.far)
    settled(pair.near)
    b.deregister()


ACROSS_1_2 = "command a b 1\ncommand a b 2\nrelay_out a b 1 +1\nrelay_out a b 2 +1"
CAME_1_2 = "relay_in a b 1 +1\nrelay_in a b 2 +1"

SCENARIOS: dict[str, tuple[Callable[[Pair], None], str, str]] = {
    "commands": (
        commands_there,
        ACROSS_1_2,
        f"""{CAME_1_2}
        extract a b 1 +1
        deliver a b 1 +1
        extract a b 2 +1
        deliver a b 2 +1
        """,
    ),
    "commands the other way": (
        commands_back,
        """
        relay_in b a 1 +1
        extract b a 1 +1
        deliver b a 1 +1
        """,
        """
        command b a 1
        relay_out b a 1 +1
        """,
    ),
    "a call": (
        call,
        """
        command a b 1
        relay_out a b 1 +1
        relay_in b a !1 +1
        deliver b a !1 +1
        """,
        """
        relay_in a b 1 +1
        extract a b 1 +1
        deliver a b 1 +1
        respond b a !1
        relay_out b a !1 +1
        """,
    ),
    "an answer that comes too late": (
        call_in_vain,
        """
        command a b 1
        relay_out a b 1 +1
        relay_in b a !1 +1
        discard b a !1 +1 unwanted
        """,
        """
        relay_in a b 1 +1
        extract a b 1 +1
        deliver a b 1 +1
        respond b a !1
        relay_out b a !1 +1
        """,
    ),
    "a notification to two": (
        notify,
        """
        notify a FAR *1
        relay_out a FAR *1 +1
        """,
        """
        relay_in a FAR *1 +1
        deliver a FAR *1 +1
        notify a b *1 +1
        notify a c *1 +1
        extract a b *1 +1
        deliver a b *1 +1
        extract a c *1 +1
        deliver a c *1 +1
        """,
    ),
    "a notification here and there": (
        notify_here_and_there,
        """
        notify a d *1
        extract a d *1
        deliver a d *1
        notify a FAR *2
        relay_out a FAR *2 +1
        relay_in b a *!2 +1
        deliver b a *!2 +1
        """,
        """
        relay_in a FAR *2 +1
        deliver a FAR *2 +1
        notify a b *2 +1
        extract a b *2 +1
        deliver a b *2 +1
        respond b a *!2
        relay_out b a *!2 +1
        """,
    ),
    "an answer to a departed task": (
        asker_leaves,
        """
        command a b 1
        relay_out a b 1 +1
        relay_in b a !1 +1
        discard b a !1 +1 unwanted
        """,
        """
        relay_in a b 1 +1
        extract a b 1 +1
        deliver a b 1 +1
        respond b a !1
        relay_out b a !1 +1
        """,
    ),
    "left, and came here": (
        left_and_came_here,
        f"""{ACROSS_1_2}
        discard a b 1 addressee_gone
        command a b' 1
        discard a b 2 addressee_gone
        command a b' 2
        extract a b' 1
        deliver a b' 1
        extract a b' 2
        deliver a b' 2
        """,
        f"""{CAME_1_2}
        discard a b 1 +1 addressee_gone
        discard a b 2 +1 addressee_gone
        """,
    ),
    "left for good": (
        left_for_good,
        """
        command a b 1
        relay_out a b 1 +1
        discard a b 1 addressee_gone
        undelivered a b 1 addressee_gone
        """,
        """
        relay_in a b 1 +1
        discard a b 1 +1 addressee_gone
        """,
    ),
    "its process leaves": (
        process_leaves,
        f"""{ACROSS_1_2}
        discard a b 2 addressee_gone
        undelivered a b 2 addressee_gone
        """,
        f"""{CAME_1_2}
        extract a b 1 +1
        deliver a b 1 +1
        discard a b 2 +1 addressee_gone
        """,
    ),
}
