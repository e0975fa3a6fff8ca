"""`LinkPool`: the link pool of a process: its queues, and one place to wait for all.

A link is a `MessageQueue` that comes from a `QueueBroker` (BUS-CHAN-1). Link set-up may
take a while, and no serving thread may wait for it (BUS-CHAN-3). So one helper thread
for each broker accepts links, and one for each outgoing link dials. All other methods
are for the one thread that owns the pool; it waits only in `wait`.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from bus.core.remote.dial_failures import DialFailure
from bus.core.wire import FRAME_BYTES_MAX
from bus.links.connect_failure import connect_failure
from bus.links.unsent import Unsent
from bus.threads.thread_manager import Request
from queuebroker import _sync
from queuebroker.errors import (
    DisconnectedError,
    MessageTooLargeError,
    QueueBrokerError,
    ReceiveTimeoutError,
    SendTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.config import BusConfig
    from bus.links.link_policy import LinkBroker, LinkPolicy
    from bus.links.link_poller import LinkPoller, ReadLease
    from bus.links.peer_log import PeerLog
    from bus.threads.inbox import Inbox
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["PORT", "LinkPool"]

PORT: Final = 1  # the port of a broker on which links are accepted
_FRAMES_MAX: Final = 256  # taken from one link before the next link's turn


class LinkPool:
    """The links of a process, by the numbers that it gives them.

    Args:
        inbox: wakes the owner, and takes requests to it.
        config: limits the frames in each direction of a link, and those that wait for
            room in it (BUS-CHAN-8). Its timeout of a connect also bounds the closing of
            a link, until the frames sent before have found room.
        policy: dials an address, in a helper thread.
        poller: how the owner waits for frames.
        peer_log: notes each link that is unusable from the start.
        on_aborted: called when the pool aborts a link, with its number and the reason;
            `take` reports the loss of the link as usual.
    """

    __slots__ = (
        "_backlog",
        "_brokers",
        "_capacity",
        "_causes",
        "_closed",
        "_closing",
        "_helpers",
        "_inbox",
        "_numbers",
        "_on_aborted",
        "_peer_log",
        "_policy",
        "_poller",
        "_queues",
        "_timeout_s",
        "_unsent",
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
        self._capacity: Final = config.link_frames
        self._timeout_s: Final = config.connect_timeout_s
        self._backlog: Final = config.backlog_frames, config.backlog_bytes
        self._policy: Final = policy
        self._poller: Final = poller
        self._peer_log: Final = peer_log
        self._on_aborted: Final = on_aborted
        self._numbers = itertools.count(1)
        self._queues: Final[dict[int, MessageQueue]] = {}
        # Frames that found a link full; links to close once these are sent, or at a
        # deadline.
        self._unsent: Final[dict[int, Unsent]] = {}
        self._closing: Final[dict[int, float]] = {}
        self._causes: Final[dict[int, BaseException]] = {}
        self._brokers: Final[list[LinkBroker]] = []
        self._helpers: Final[list[_sync.Thread]] = []
        self._closed: bool = False

    # Link set-up.

    def accept_links(
        self, broker: LinkBroker, on_accepted: Callable[[int], object]
    ) -> None:
        """Accept links at a broker until `close`.

        on_accepted: called with the number of each link.

        Raises:
            RuntimeError: no thread can be started for it; the broker is closed.
        """
        if self._closed:
            broker.close()
            return
        self._brokers.append(broker)

        def accept() -> None:
            try:
                while True:
                    queue = broker.accept(PORT, capacity=self._capacity)
                    self.add(queue, on_accepted)
            except QueueBrokerError:
                return  # the broker is closed

        try:
            self._help(f"{broker.name} accepts", accept)
        except RuntimeError:
            self._brokers.remove(broker)
            broker.close()
            raise

    def add(self, queue: MessageQueue, on_accepted: Callable[[int], object]) -> None:
        """Add a link that was accepted; for any thread."""
        if why := _unfit(queue):
            self._turn_away(queue, f"a peer is rejected: {why}")
        else:
            self._hand_over(queue, on_accepted)

    def dial(
        self,
        addresses: Sequence[str],
        on_dialled: Callable[[int | None], object],
        on_failed: Callable[[DialFailure], object] | None = None,
    ) -> None:
        """Dial some addresses side by side; the first link is used (BUS-DISC-10).

        on_dialled: called with the number of the link; None if no address yields one.
        on_failed: called before that with the failure; with a refusal, if a listener
          rejects this process or is not trusted.
        """
        if self._closed:
            return
        broker = self._brokers[0]
        attempt = _Attempt(len(addresses), on_dialled, on_failed)
        for address in addresses:
            connect = partial(self._connect, broker, address, attempt)
            try:
                self._help(f"{broker.name} connects", connect)
            except RuntimeError:  # no thread is left: a later dial may succeed
                why = "this process can start no thread"
                self._ask(partial(attempt.fail, DialFailure(why)))

    def _connect(self, broker: LinkBroker, address: str, attempt: _Attempt) -> None:
        """Dial one address, in a helper thread."""
        failure = DialFailure(f"{address}: nobody listens there")
        try:
            queue = self._policy.connect(broker, address, self._timeout_s)
        except QueueBrokerError as error:
            if broker.closed:
                return
            # Nobody listens; or the listener closes, or rejects this process.
            queue, failure = None, connect_failure(error, address)
        except Exception as error:  # noqa: BLE001 # a local failure, such as a lack of
            # descriptors: a later dial may succeed.
            queue, failure = None, connect_failure(error, address)
            if not failure.is_refusal:
                self._ask(partial(self._peer_log.note, failure.why))
        if queue is not None:
            unfit = _unfit(queue)
            if not unfit:
                self._hand_over(queue, attempt.succeed)
                return
            failure = DialFailure(f"{address} is not used: {unfit}")
            self._turn_away(queue, failure.why)
        self._ask(partial(attempt.fail, failure))

    def _help(self, name: str, work: Callable[[], None]) -> None:
        self._helpers[:] = [each for each in self._helpers if each.is_alive()]
        helper = _sync.Thread(target=work, name=name, daemon=True)
        self._helpers.append(helper)
        try:
            helper.start()
        except RuntimeError:
            self._helpers.remove(helper)  # no thread can join a helper that never ran
            raise

    def _turn_away(self, queue: MessageQueue, words: str) -> None:
        queue.disconnect()
        self._ask(partial(self._peer_log.note, words))

    def _hand_over(self, queue: MessageQueue, on_link: Callable[[int], object]) -> None:
        """Add a link; if ``on_link`` returns False, it is not needed."""
        number = next(self._numbers)

        def own() -> None:
            if self._closed:
                queue.disconnect()  # else the peer would wait for a first frame
                return
            self._queues[number] = queue
            self._poller.add(number, queue)
            if on_link(number) is False:
                self._close_link(number)

        self._ask(own)

    def _ask(self, request: Callable[[], object]) -> None:
        """Let the owner call ``request``; for any thread."""
        self._inbox.push(Request(request))

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
        waiting = self._unsent.get(number)
        if waiting is None:
            try:
                queue.send(frame, timeout=0)
            except SendTimeoutError:
                self._unsent[number] = Unsent(frame, _sync.monotonic())
                return False
            except DisconnectedError:
                pass  # reported once the earlier frames are read (BUS-CHAN-5)
            except MessageTooLargeError:
                self._end(number, f"it cannot carry a frame of {len(frame)} bytes")
                return False
            return True
        waiting.append(frame)
        frames_max, bytes_max = self._backlog
        if len(waiting.frames) > frames_max or waiting.size > bytes_max:
            # The peer does not read. If it resumes, one of the two processes makes
            # another link, and nothing is lost.
            self._end(number, "its queue is full")
        return False

    def send_all(self, number: int, frames: Sequence[bytes]) -> bool:
        """Put frames on a link in one step, so that the peer wakes once; as `send`."""
        sent, queue = 0, self._queues.get(number)
        if len(frames) > 1 and queue is not None and number not in self._unsent:
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
        self._unsent.pop(number, None)
        self._queues[number].disconnect()

    def abort(self, number: int) -> None:
        """Abort a link, as if it were lost; for any thread."""
        queue = self._queues.get(number)
        if queue is not None:
            queue.disconnect()

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
        if number in self._unsent:
            self._closing[number] = _sync.monotonic() + self._timeout_s
        else:
            self._close_link(number)

    @property
    def sending(self) -> bool:
        """True if a frame waits for room in a link that is not being closed."""
        return bool(self._unsent) and not self._closing.keys() >= self._unsent.keys()

    def resume(self) -> None:
        """Send the frames that waited for room; close links whose time is up."""
        if not self._unsent:
            return
        now = _sync.monotonic()
        for number, waiting in list(self._unsent.items()):
            try:
                done = waiting.send(self._queues[number], now)
            except MessageTooLargeError:
                frame = waiting.frames[0]
                self._end(number, f"it cannot carry a frame of {len(frame)} bytes")
                done = True
            if done:
                self._unsent.pop(number, None)
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
        self._unsent.pop(number, None)
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
        times = [each.again_at for each in self._unsent.values()]
        if times:
            times += self._closing.values()
            soon = min(times)
            deadline = soon if deadline is None else min(soon, deadline)
        self._poller.wait(self._inbox, ready, deadline)

    # The end.

    def close(self) -> None:
        """Stop accepting, and close all links; frames under way still arrive.

        A helper that finishes meanwhile hands its link over as usual; the link is
        closed when that request runs.
        """
        self._closed = True
        for broker in self._brokers:
            broker.close()
        for number in list(self._queues):
            self._close_link(number)
        self._poller.join(self._helpers)
        self._poller.close()


class _Attempt:
    """One dial of several addresses; for the owner's thread alone.

    pending: number of addresses that are still being dialled.
    """

    __slots__ = ("_failure", "_linked", "_on_dialled", "_on_failed", "_pending")

    def __init__(
        self,
        pending: int,
        on_dialled: Callable[[int | None], object],
        on_failed: Callable[[DialFailure], object] | None,
    ) -> None:
        self._pending = pending
        self._on_dialled: Final = on_dialled
        self._on_failed: Final = on_failed
        self._linked: bool = False
        self._failure: DialFailure | None = None

    def succeed(self, number: int) -> bool:
        """Use a link, unless an earlier one is used; return whether it is."""
        self._pending -= 1
        if self._linked:
            return False
        self._linked = True
        self._on_dialled(number)
        return True

    def fail(self, failure: DialFailure) -> None:
        """Note that an address yields no link; report the dial if none did."""
        self._pending -= 1
        if failure.is_refusal or self._failure is None:
            self._failure = failure
        if self._pending or self._linked:
            return
        if self._on_failed is not None:
            self._on_failed(self._failure)
        self._on_dialled(None)


def _unfit(queue: MessageQueue) -> str:
    """Return why a link is of no use to any process, or "" (BUS-CHAN-6)."""
    limit = queue._connection.limit
    if limit is None or limit >= FRAME_BYTES_MAX:
        return ""
    return f"its link carries frames of {limit} bytes, not {FRAME_BYTES_MAX}"
