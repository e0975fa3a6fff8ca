"""`LinkPool`: the link pool of a process: its queues, and one place to wait for all.

A link is a `MessageQueue` that comes from a `QueueBroker` (BUS-CHAN-1); `LinkHelpers`
set it up. The methods are for the one thread that owns the pool, unless a docstring
says otherwise. It waits only in `wait`.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bus.core import constants
from bus.links.link_helpers import LinkHelpers
from bus.links.unsent import Unsent
from queuebroker import _sync
from queuebroker.errors import (
    DisconnectedError,
    MessageTooLargeError,
    ReceiveTimeoutError,
    SendTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.config import BusConfig
    from bus.links.link_policy import LinkPolicy
    from bus.links.link_poller import LinkPoller, ReadLease
    from bus.links.peer_log import PeerLog
    from bus.threads.inbox import Inbox
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["LinkPool"]

_FRAMES_MAX: Final = 256  # taken from one link before the next link's turn


class LinkPool:
    """The links of a process, by the numbers that it gives them.

    Args:
        inbox: wakes the owner, and takes requests to it.
        config: its timeout of a connect also bounds the closing of a link, until the
            frames sent before have found room (BUS-CHAN-8).
        policy: dials an address, in a helper thread.
        poller: how the owner waits for frames.
        peer_log: notes each link that is unusable from the start.
        on_aborted: called when the pool aborts a link, with its number and the reason;
            `take` reports the loss of the link as usual.

    Attributes:
        helpers: they accept and dial the links.
        unsent: the frames that found a link full, by link; only this class modifies it.
    """

    __slots__ = (
        "_causes",
        "_closed",
        "_closing",
        "_inbox",
        "_numbers",
        "_on_aborted",
        "_poller",
        "_queues",
        "_timeout_s",
        "helpers",
        "unsent",
    )

    def __init__(
        self,
        inbox: Inbox,
        config: BusConfig,
        policy: LinkPolicy,
        *,
        poller: LinkPoller,
        peer_log: PeerLog,
        on_aborted: Callable[[int, str], object],
    ) -> None:
        self._inbox: Final = inbox
        self._timeout_s: Final = config.connect_timeout_s
        self._poller: Final = poller
        self._on_aborted: Final = on_aborted
        self._numbers = itertools.count(1)
        self._queues: Final[dict[int, MessageQueue]] = {}
        # The links to close once their unsent frames are sent, or at a deadline.
        self.unsent: Final[dict[int, Unsent]] = {}
        self._closing: Final[dict[int, float]] = {}
        self._causes: Final[dict[int, BaseException]] = {}
        self._closed: bool = False
        self.helpers: Final = LinkHelpers(
            inbox, config, policy, peer_log=peer_log, own=self._own
        )

    def _own(self, queue: MessageQueue, on_link: Callable[[int], object]) -> None:
        """Add a link; if ``on_link`` returns False, it is not needed."""
        if self._closed:
            queue.disconnect()  # else the peer would wait for a first frame
            return
        number = next(self._numbers)
        try:
            self._queues[number] = queue
            self._poller.add(number, queue)
            if on_link(number) is False:
                self._close_link(number)
        except BaseException:
            self._queues.pop(number, None)
            queue.disconnect()  # no other object has it
            raise

    def queue(self, number: int) -> MessageQueue:
        """Return the queue of a link; raise a `KeyError` if the link is lost."""
        return self._queues[number]

    # Frames on the links.

    def send(self, number: int, frame: bytes) -> bool:
        """Put a frame on a link; drop it if the link is lost (BUS-CHAN-4).

        Returns False if the frame waits for room there.
        """
        queue = self._queues.get(number)
        if queue is None:
            return True
        waiting = self.unsent.get(number)
        if waiting is None:
            try:
                queue.send(frame, timeout=0)
            except SendTimeoutError:
                self.unsent[number] = Unsent(frame, _sync.monotonic())
                return False
            except DisconnectedError:
                pass  # reported once the earlier frames are read (BUS-CHAN-5)
            except MessageTooLargeError:
                self._end(number, f"it cannot carry a frame of {len(frame)} bytes")
                return False
            return True
        waiting.append(frame)
        frames_max, bytes_max = constants.BACKLOG_FRAMES, constants.BACKLOG_BYTES
        if len(waiting.frames) > frames_max or waiting.size > bytes_max:
            # The peer does not read. If it resumes, one of the two processes makes
            # another link, and nothing is lost.
            self._end(number, "its queue is full")
        return False

    def send_all(self, number: int, frames: Sequence[bytes]) -> bool:
        """Put frames on a link in one step, so that the peer wakes once; as `send`."""
        sent, queue = 0, self._queues.get(number)
        if len(frames) > 1 and queue is not None and number not in self.unsent:
            # The rest is sent one by one below, which handles each of these errors.
            with suppress(DisconnectedError, MessageTooLargeError, SendTimeoutError):
                sent = queue.send_many(frames, timeout=0)
        done = True
        for each in frames[sent:]:  # all of them, also behind one that waits
            done = self.send(number, each) and done
        return done

    def _end(self, number: int, why: str) -> None:
        """Abort a link that does not take its frames."""
        self._on_aborted(number, why)
        self.unsent.pop(number, None)
        self._queues[number].disconnect()

    def abort(self, number: int) -> None:
        """Abort a link, as if it were lost; for any thread."""
        queue = self._queues.get(number)
        if queue is not None:
            queue.disconnect()

    def abort_all(self) -> None:
        """Abort all links, as if they were lost; `take` reports each."""
        for number in list(self._queues):
            self.abort(number)
            self.mark_ready(number)

    def wake(self) -> None:
        """Wake the owner, if links lead to other processes; takes no lock."""
        self._poller.wake()

    def mark_ready(self, number: int) -> None:
        """Mark a link ready for the next `take`; for any thread."""
        self._poller.mark_ready(number)

    def read_lease(self, number: int) -> ReadLease | None:
        """Return the read lease of a link; None if the link is lost."""
        queue = self._queues.get(number)
        return None if queue is None else self._poller.read_lease(queue)

    def hang_up(self, number: int) -> None:
        """Close a link after all frames sent on it, unless that takes too long."""
        if number in self.unsent:
            self._closing[number] = _sync.monotonic() + self._timeout_s
        else:
            self._close_link(number)

    @property
    def sending(self) -> bool:
        """True if a frame waits for room in a link that is not being closed."""
        return bool(self.unsent) and not self._closing.keys() >= self.unsent.keys()

    def resume(self) -> None:
        """Send the frames that waited for room; close links whose time is up."""
        if not self.unsent:
            return
        now = _sync.monotonic()
        for number, waiting in list(self.unsent.items()):
            try:
                done = waiting.send(self._queues[number], now)
            except MessageTooLargeError:
                frame = waiting.frames[0]
                self._end(number, f"it cannot carry a frame of {len(frame)} bytes")
                done = True
            if done:
                self.unsent.pop(number, None)
            if number in self._closing and (done or self._closing[number] <= now):
                self._close_link(number)

    def take(self) -> list[tuple[int, bytes | None]]:
        """Take in the frames by link number; None stands for a lost link."""
        came: list[tuple[int, bytes | None]] = []
        for number in self._poller.take_ready():
            queue = self._queues.get(number)
            if queue is None:
                continue  # disconnected since
            try:
                frames = queue.receive_many(_FRAMES_MAX, timeout=0)
            except ReceiveTimeoutError:
                if queue.remote_disconnected:
                    self._poller.mark_ready(number)  # something is on its way yet
                continue
            except DisconnectedError as error:
                if number not in self._closing:
                    came.append((number, None))
                    if error.__cause__ is not None:
                        self._causes[number] = error.__cause__
                self._close_link(number)
                continue
            # The queue itself signals further frames, but not a loss that may follow
            # the last one.
            if queue.remote_disconnected:
                self._poller.mark_ready(number)
            if number not in self._closing:
                came += [(number, frame) for frame in frames]
        return came

    def cause(self, number: int) -> BaseException | None:
        """Return why a link ended without a farewell; once for each lost link.

        The cause is a `PeerLostError` if the process died, or a `ProtocolError` if it
        broke the rules of links. It is a `RemoteError` if the peer closed the link
        because of an error of this process, and None if it closed the link in order.
        """
        return self._causes.pop(number, None)

    def _close_link(self, number: int) -> None:
        self.unsent.pop(number, None)
        self._closing.pop(number, None)
        queue = self._queues.pop(number, None)
        if queue is not None:
            self._poller.remove(number)
            queue.disconnect()

    # Waiting.

    def wait(self, ready: Callable[[], bool], deadline: float | None) -> None:
        """Sleep until a frame or loss arrives, ``ready()`` holds, or the deadline
        passes.

        ready: checked whenever anything is posted to the inbox.
        deadline: on the monotonic clock in seconds; None for never.
        """
        times = [each.again_at for each in self.unsent.values()]
        if times:
            times += self._closing.values()
            soon = min(times)
            deadline = soon if deadline is None else min(soon, deadline)
        full = [self._queues[number] for number in self.unsent]
        self._poller.wait(self._inbox, ready, deadline, full)

    # The end.

    def close(self) -> None:
        """Stop accepting, and close all links; frames under way still arrive.

        A helper that finishes meanwhile hands its link over as usual; the link is
        closed when that request runs.
        """
        self._closed = True
        self.helpers.close()
        for number in list(self._queues):
            self._close_link(number)
        self._poller.join(self.helpers.threads)
        self._poller.close()
