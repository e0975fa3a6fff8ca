"""`Owner` and `Recipient`: the two ends of shared memory, without links.

Both are in the process of the test, so that each sees every lease of the other.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.features.memory.frames import MemoryFrame, Release, SlabAnswer
from bus.features.memory.link_memory import LinkMemory
from bus.kernel.wire import FOLLOWS_MIN, NO_DEADLINE, RAW, Batch, FrameReader, Run
from bus.model.message import Kind
from tests.kit.constants import configured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bus.features.memory.arena import Arena
    from bus.kernel.wire import Frame

__all__ = [
    "MIB",
    "SIZE",
    "Owner",
    "Place",
    "Recipient",
    "all_closed",
    "body_of",
    "close_all",
    "in_memory",
    "message",
]

MIB: Final = 2**20
SIZE: Final = FOLLOWS_MIN  # the least that goes through memory
_numbers = count(1)
_opened: Final[list[LinkMemory]] = []


def message(body: bytes | memoryview) -> Batch:
    """Return the frame of one command."""
    run = Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, [body])
    number = next(_numbers)
    return Batch(1, 1, number, number, [run])


def body_of(frame: Frame) -> Any:
    assert isinstance(frame, Batch)
    [run] = frame.runs
    [body] = run.bodies
    return body


def in_memory(frame: Frame) -> bool:
    """Return True if the body of a message lies in shared memory.

    It is a view in any case (BUS-MSG-16).
    """
    body = body_of(frame)
    assert type(body) is memoryview
    assert body.readonly
    return type(body.obj) is not bytes


class Place:
    """The process of an end: the `Process` of its memory.

    process_id: returns the process at a link.
    woken: how often its comm thread was woken. names: those of the processes at links.
    requests: those to its comm thread.
    """

    def __init__(self, process_id: Callable[[int], int | None]) -> None:
        self.process_id: Final = process_id
        self.woken = 0
        self.names: Mapping[int, str] = {}
        self.requests: Final[list[Callable[[], object]]] = []

    def wake_unless_soon(self) -> None:
        self.woken += 1

    def ask(self, request: Callable[[], object]) -> None:
        self.requests.append(request)

    def link_names(self) -> Mapping[int, str]:
        return self.names


class Owner:
    """A process that sends; its links are numbered, one to each recipient.

    process_ids: the processes at links; None if the link is lost. By default it is that
      of the test, or ``process_id``.
    """

    def __init__(self, process_id: int | None = None, **settings: Any) -> None:
        pid = os.getpid() if process_id is None else process_id
        self.process_ids: Final[dict[int, int | None]] = {}
        self.place: Final = Place(lambda link: self.process_ids.get(link, pid))
        self.memory: Final = LinkMemory(configured(**settings), self.place)
        self.recipients: Final[dict[int, Recipient]] = {}
        _opened.append(self.memory)

    def link(self, number: int, recipient: Recipient) -> None:
        self.recipients[number] = recipient

    def send(self, body: bytes | memoryview, *links: int) -> list[Frame]:
        """Send one body on links in one round; return the messages that arrived."""
        arrived = []
        for link in links:
            for piece in self.memory.pieces(link, message(body)):
                arrived += self.recipients[link].read(piece)
        for link, data in self.memory.end_round():
            arrived += self.recipients[link].read(data)
        return [each for each in arrived if isinstance(each, Batch)]

    def answers(self) -> list[MemoryFrame]:
        """Take in all that the recipients have to say; return it."""
        received = []
        for link, recipient in self.recipients.items():
            for frame in recipient.say():
                received.append(frame)
                assert self.memory.on_frame(link, frame) == []
        return received

    def prepared(self, *links: int, size: int = SIZE) -> None:
        """Have a slab for messages of this size mapped at links."""
        first = self.send(bytes(size), *links)
        assert not any(map(in_memory, first))
        assert self.answers() == [SlabAnswer(slab=1, mapped=True)] * len(links)

    @property
    def arena(self) -> Arena:
        return self.memory._shared._arena

    @property
    def used(self) -> int:
        """The buffers in use."""
        return sum(each.buffers - each.free for each in self.arena.slabs())


class Recipient:
    """A process that receives, on one link with the number 7.

    memory: that of the process; by default one that is made here.
    """

    def __init__(
        self,
        process_id: int | None = -1,
        memory: LinkMemory | None = None,
    ) -> None:
        pid = os.getpid() if process_id == -1 else process_id
        self.place: Final = Place(lambda _: pid)
        self.memory: Final = memory or LinkMemory(configured(), self.place)
        self._reader: Final = FrameReader()
        self._answers: Final[deque[MemoryFrame]] = deque()
        self.pieces: Final[list[bytes]] = []
        _opened.append(self.memory)

    def read(self, data: bytes) -> list[Frame]:
        self.pieces.append(data)
        frame = self._reader.read(data)
        if frame is None:
            return []
        frame = self.memory.resolve_body(7, frame)
        if isinstance(frame, MemoryFrame):
            for action in self.memory.on_frame(7, frame):
                assert isinstance(action.frame, SlabAnswer)
                self._answers.append(action.frame)
        return [frame]

    def say(self) -> Iterator[MemoryFrame]:
        while self._answers:
            yield self._answers.popleft()
        for action in self.memory.take_ended():
            assert isinstance(action.frame, Release)
            yield action.frame


@pytest.fixture(autouse=True)
def all_closed() -> Iterator[None]:
    """Close all memory after each test of a module that imports this fixture."""
    yield
    close_all()
    gc.collect()


def close_all() -> None:
    """Close the memory of all ends."""
    while _opened:
        _opened.pop().close()
