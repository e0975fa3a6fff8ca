"""`InprocRegistry`: the listeners of ``inproc`` addresses, and connections to them.

A message goes from one node to the other in the thread that sends it, by reference.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bus.pattern.framing import PlainFraming
from bus.pattern.send_queue import SendQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.message_run import MessageRun
    from bus.pattern.node import Node
    from bus.pattern.pipe import Pipe

__all__ = ["InprocConnection", "InprocRegistry"]


def _itself(run: MessageRun) -> MessageRun:
    return run


class InprocConnection:
    """One end of a connection within this process; a `Carrier`.

    on_end: called when either end closes.

    Attributes:
        queue: the messages that the other node has not yet.
        flush_soon: None: a message is handed over at once.
    """

    __slots__ = ("_ended", "_numbering", "_on_end", "_other", "_pipe", "node", "queue")

    flush_soon: Final = None

    def __init__(self, node: Node, on_end: Callable[[], object]) -> None:
        config = node.config
        self.node: Final = node
        self._on_end: Final = on_end
        self._other: InprocConnection | None = None
        self._pipe: Pipe | None = None
        self._ended: bool = False
        self._numbering: Final = PlainFraming()  # of messages from a plain peer
        self.queue: Final[SendQueue[MessageRun]] = SendQueue(
            config.send_messages, config.send_bytes, self._write
        )

    def join(self, other: InprocConnection, url: str) -> bool:
        """Connect two ends; return False if one of the nodes takes no connection."""
        self._other, other._other = other, self
        try:
            has_pipes = self._add_pipes(other, url)
        except BaseException:  # an interrupt: one of the nodes may have a pipe already
            self.close()
            raise
        if not has_pipes:
            self.close()
            return False
        for end in (self, other):
            end._unblock()  # messages may have come before the other pipe
        return True

    def _add_pipes(self, other: InprocConnection, url: str) -> bool:
        is_native = None not in {self.node.native, other.node.native}
        for end, peer in ((self, other), (other, self)):
            node = peer.node.id if is_native else None
            end._pipe = end.node.add_pipe(end, url, node)
            # One of the nodes may have closed meanwhile, and not have seen this pipe.
            if end._pipe is None or end._ended:
                return False
        return True

    @property
    def is_open(self) -> bool:
        """True while messages may pass."""
        return self._pipe is not None and not self._ended

    def put(self, run: MessageRun) -> int:
        """Queue messages, as many as there is room for; return how many."""
        return self.queue.put(run, _itself)

    @property
    def is_idle(self) -> bool:
        """True if the other node has every message."""
        return self.queue.is_idle

    def _write(self) -> bool:
        other = self._other
        pipe = None if other is None else other._pipe
        if other is None or pipe is None:
            return False  # until `join` is done
        if other.node.pauses(pipe):
            return False  # until `resume`
        runs = []
        while (run := self.queue.take()) is not None:
            if pipe.node is None:
                runs += other._numbering.read(run.bodies, pipe.origin)[0]
            else:
                runs.append(run)
        other.node.accept(pipe, runs)
        return True

    def report(self) -> None:
        """Do nothing: the other end fetches the account."""

    def ask(self) -> None:
        """Do nothing: the other node has a message once it is sent."""

    def refresh(self) -> None:
        """Fetch the account of the other end."""
        pipe, other = self._pipe, self._other
        if (
            pipe is not None
            and pipe.node is not None
            and other is not None
            and other._pipe is not None
        ):
            for account in other.node.accounts_of(other._pipe):
                self.node.on_account(pipe, account)

    def resume(self) -> None:
        """Let the other end hand over the messages that it holds back."""
        if self._other is not None:
            self._other._unblock()

    def _unblock(self) -> None:
        try:
            self.queue.unblock()
        finally:  # `on_drop` of the other node may have raised `SystemExit`
            self.node.on_room()

    def close(self) -> None:
        """End the connection at both ends."""
        other = self._other
        if other is not None:
            other._end()
        self._end()

    def _end(self) -> None:
        """End this end; again for a pipe that it got, or lacked time for, meanwhile."""
        with self.node.lock:
            ended, self._ended = self._ended, True
        if self._pipe is None:  # also if an interrupt came before it was noted
            mine = [each for each in self.node.pipes if each.carrier is self]
            self._pipe = mine[0] if mine else None
        if self._pipe is not None:
            self.node.remove_pipe(self._pipe)
        if not ended:
            self._on_end()


class InprocRegistry:
    """The listeners of this process, by name, and the diallers that wait for one.

    Lock-free: a dialler enters itself before it looks a last time for a listener. A
    listener enters itself before it takes the waiting diallers. So at least one of the
    two sees the other. Only one of them can remove the entry of the dialler, and that
    one dials. Each step is one call into C.

    The last dialler that leaves a list removes the list. Another dialler may have
    entered itself there in between. So the diallers of a removed list dial again, as
    after a new listener, and without one they enter themselves in a new list.
    """

    def __init__(self) -> None:
        self._listeners: Final[dict[str, Callable[[InprocConnection], bool]]] = {}
        self._waiting: Final[dict[str, list[Callable[[], object]]]] = {}

    def listen(self, name: str, accept: Callable[[InprocConnection], bool]) -> bool:
        """Accept connections to a name; return False if another listener has it.

        accept: connects the end of a dialler; returns False if it does not. It raises
          a `WireError` if the two do not match.
        """
        if self._listeners.setdefault(name, accept) != accept:
            return False
        self._redial(name)
        return True

    def _redial(self, name: str) -> None:
        """Remove the list of a name, and have each dialler in it dial again."""
        waiting = self._waiting.pop(name, [])
        while waiting:
            with suppress(IndexError):  # its dialler has left, or found a listener
                waiting.pop()()

    def clear(self) -> None:
        """Forget everything, in a fork's child: the listeners are the parent's."""
        self._listeners.clear()
        self._waiting.clear()

    def stop(self, name: str) -> None:
        """Stop accepting connections to a name."""
        self._listeners.pop(name, None)

    def dial(
        self, name: str, end: InprocConnection, on_listener: Callable[[], object]
    ) -> bool:
        """Connect an end to a name; return False if nobody listens, or accepts it.

        on_listener: called once if a listener may have come later; it dials again.

        Raises:
            WireError: the listener does not match.
        """
        while (accept := self._listeners.get(name)) is None:
            waiting = self._waiting.setdefault(name, [])
            waiting.append(on_listener)
            # A listener may have come before the entry, or have taken the list away.
            is_listed = self._waiting.get(name) is waiting
            if is_listed and self._listeners.get(name) is None:
                return False
            if not self._leave(name, on_listener, waiting):
                return False
        return accept(end)

    def forget(self, name: str, on_listener: Callable[[], object]) -> None:
        """Undo a `dial` that waits for a listener."""
        self._leave(name, on_listener, self._waiting.get(name, []))

    def _leave(
        self,
        name: str,
        on_listener: Callable[[], object],
        waiting: list[Callable[[], object]],
    ) -> bool:
        """Remove a dialler from a list; return False if it is not there any more."""
        try:
            waiting.remove(on_listener)
        except ValueError:
            return False
        if not waiting:
            self._redial(name)
        return True
