"""`Alone`: a fast path driver by itself, and stand-ins for everything around it.

On a whole bus the comm thread does later what a task thread wrongly leaves, so that no
test of behaviour notices.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from bus.features.memory.link_memory import LinkMemory
from bus.model.message import Kind
from bus.process.fast_path_driver import FastPathDriver, _WaitableLink
from bus.process.inbox import Inbox
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync

__all__ = ["Alone", "LeaseOfOne", "Peer", "Short"]


class Short:
    """A stand-in for the fast path; takes each frame that begins with ``+``."""

    link = 1
    is_current = True
    peer = SimpleNamespace(
        acks=SimpleNamespace(in_exchange=False, is_urgent=False),
        session=SimpleNamespace(link=1),
    )
    # The question that an answer reported as extracted; None if none did.
    extracted: Any = None
    refuses = False

    def command(self, *_: Any) -> bytes:
        return b"command"

    def answer(
        self, question: Any, *_: Any, extracted_at: float | None = None
    ) -> bytes | None:
        if self.refuses:
            return None
        self.extracted = None if extracted_at is None else question
        return b"answer"

    def receive(self, data: bytes, todo: Any) -> bool:
        if data.startswith(b"+"):
            todo.append(data)
        return data.startswith(b"+")


class LeaseOfOne:
    """A stand-in for the read lease of a link with some received frames."""

    def __init__(self, *frames: bytes, ended: bool = False) -> None:
        self.frames = list(frames)
        self.ended = ended
        self.left = self.slept = self.missing_bytes = 0
        self.holder: Inbox | None = None

    def take(self, inbox: Inbox, _: bytes | None = None) -> bool:
        self.holder = inbox
        return True

    def sleep(self, _: float | None) -> None:
        """Return at once: frames are there already."""
        self.slept += 1

    def read(self) -> list[bytes]:
        self.left += bool(self.frames)
        return self.frames

    def leave(self, _: Inbox | None = None) -> None:
        self.left += 1


class Peer:
    """A stand-in for a process, with its link."""

    session = SimpleNamespace(link=1, ack_at=None)
    acks = SimpleNamespace(in_exchange=False)


class _Place(ThreadManager):
    """A thread whose `pending` the test sets."""


class _Lock:
    """A stand-in for the lock of the exchange."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self._taken = False

    def locked(self) -> bool:
        return self._taken

    def __enter__(self) -> None:
        self._calls.append("locked")
        self._taken = True

    def __exit__(self, *_: object) -> None:
        self._taken = False


class _LinkPool:
    """A stand-in for links that are full."""

    unsent: ClassVar = {0: "frames"}

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def abort(self, link: int) -> None:
        self._calls.append(f"abort {link}")

    def mark_ready(self, link: int) -> None:
        self._calls.append(f"stir {link}")

    def send(self, link: int, _: bytes) -> bool:
        self._calls.append(f"full {link}")
        return False

    def send_all(self, _: int, frames: list[bytes]) -> bool:
        self._calls.append(f"together {frames}")
        return True

    @property
    def sending(self) -> bool:
        self._calls.append("busy?")
        return False


class _Memory:
    """A stand-in for the memory of the links.

    reports: the reports of ended leases that are due.
    """

    takes = LinkMemory.takes

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self.reports: list[bytes] = []

    @property
    def ended_at(self) -> list[bytes]:
        return self.reports

    def put(self, link: int, frame: bytes) -> list[bytes]:
        self._calls.append(f"reports {link}")
        taken, self.reports = self.reports, []
        return [*taken, frame]

    def take(self, link: int, frame: bytes) -> bool:
        if frame[1:] == b"wrong":
            return False
        self._calls.append(f"report {link}")
        return True


class Alone:
    """A fast path driver on its own, with its outgoing calls recorded."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fast_path = Short()
        self.midway: set[int] = set()
        self.todo: deque[Any] = deque()
        self.given: deque[tuple[int, bytes]] = deque()
        self.host = cast("Any", _Place("host"))
        self.host.pending = lambda: False
        # The frames processed in place of the comm thread, and whether acknowledgements
        # are due.
        self.attended: list[tuple[int, bytes]] = []
        self.acknowledgement_tracker = SimpleNamespace(due=False)
        self.exchange = SimpleNamespace(
            try_deliver_now=self._try_deliver_now,
            act=lambda most=0: self.calls.append(f"act {most}"),
            unfinished=False,
            _lock=_Lock(self.calls),
            _todo=(),
            _acting=False,
        )
        self.link_pool: Any = _LinkPool(self.calls)
        self.memory = _Memory(self.calls)
        self.fast_path_driver = FastPathDriver(
            cast("Any", self.exchange),
            cast("Any", None),
            cast("Any", self.link_pool),
            rounds=cast(
                "Any",
                SimpleNamespace(
                    inbox=Inbox(),
                    link_actions=deque(),
                    links_reserved=False,
                    hold=_sync.Lock(),
                    given=self.given,
                    readers=SimpleNamespace(midway=self.midway),
                    acknowledgement_tracker=self.acknowledgement_tracker,
                    request_flush=lambda: self.calls.append("request_flush"),
                    wake=lambda: self.calls.append("wake"),
                    wake_soon=lambda: self.calls.append("soon"),
                    run_urgent_part=self._run_urgent_part,
                    bodies=self.memory,
                    end_bodies=lambda: self.calls.append("memory"),
                ),
            ),
            audience=cast("Any", None),
        )

    def _run_urgent_part(self) -> None:
        assert self.fast_path_driver.hold.locked()
        self.calls.append("urgent part")
        self.attended += self.given
        self.given.clear()
        self.acknowledgement_tracker.due = False

    def _try_deliver_now(self, link: Short, frame: bytes, host: Any) -> bool | None:
        assert host is self.host
        received = link.receive(frame, self.todo)
        return False if received else None

    def ask(
        self, host: Any = None, lease: Any = None, *, wants_reply: bool = True
    ) -> bool:
        peer: Any = Peer()
        client = SimpleNamespace(questions=SimpleNamespace(open={}))
        source = SimpleNamespace(host=host, mailbox=SimpleNamespace(client=client))
        relay = SimpleNamespace(peer=peer)
        question: Any = SimpleNamespace(
            kind=Kind.COMMAND,
            _source=source,
            _to=SimpleNamespace(mailbox=relay),
            _id=1,
            wants_reply=wants_reply,
        )
        lease = LeaseOfOne() if lease is None else lease
        self.fast_path_driver._waitable_links[peer] = _WaitableLink(
            self.fast_path_driver, cast("Any", self.fast_path), lease
        )
        return self.fast_path_driver.send_now(question)

    def wait(self, *frames: bytes, ended: bool = False) -> bool:
        lease: Any = LeaseOfOne(*frames, ended=ended)
        waitable = _WaitableLink(
            self.fast_path_driver, cast("Any", self.fast_path), lease
        )
        stays = waitable.wait(self.host, None)
        assert lease.left == 1
        return stays
