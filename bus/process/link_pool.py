"""`LinkPool`: the link pool of a process: its queues, and one place to wait for all.

A link is a `MessageQueue` that comes from a `QueueBroker` (BUS-CHAN-1); `LinkHelpers`
set it up. The methods are for the one thread that owns the pool, unless a docstring
says otherwise. It waits only in `wait`.

`LinkSetup` chooses the addresses to dial, and reports each dialled or accepted link to
the manager, with the identity of the peer. Set-up takes time, so helper threads do it
(`LinkHelpers`). `Unsent` has the frames that wait for room on a full link.
"""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from bus.kernel import constants
from bus.kernel.links.master_dialler import DialFailure
from bus.process.link_helpers import LinkHelpers
from queuebroker import _sync
from queuebroker.errors import (
    DisconnectedError,
    MessageTooLargeError,
    ReceiveTimeoutError,
    SendTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.actions import Dial
    from bus.model.config import BusConfig
    from bus.process.exchange import Exchange
    from bus.process.failures import PeerLog
    from bus.process.inbox import Inbox
    from bus.process.link_policy import LinkBroker, LinkPolicy
    from bus.process.link_poller import LinkPoller, ReadLease
    from bus.process.verdict import JoinState
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["LinkPool", "LinkSetup", "Unsent"]

# Shortest and longest pause before a full link is tried again, unless `LinkPoller.wait`
# ends before: the peer may have read meanwhile. A peer that does not read must not keep
# the owner awake.
_ROOM_S: Final = 0.001
_ROOM_S_MAX: Final = 0.05


class Unsent:
    """Frames that found a link full.

    frames: the frames, in order. size: their total length, in bytes.
    again_at: the time of the next attempt, in seconds.
    """

    __slots__ = ("_pause_s", "again_at", "frames", "size")

    def __init__(self, frame: bytes, now: float) -> None:
        self.frames: Final = deque([frame])
        self.size: int = len(frame)
        self._pause_s: float = _ROOM_S
        self.again_at: float = now + _ROOM_S

    def append(self, frame: bytes) -> None:
        """Add a frame after all others."""
        self.frames.append(frame)
        self.size += len(frame)

    def send(self, queue: MessageQueue, now: float) -> bool:
        """Send as many frames as the link takes; return True if none is left.

        Raises:
            MessageTooLargeError: the link can never take the first frame.
        """
        frames, before = self.frames, len(self.frames)
        try:
            while frames:
                # As many as the peer may have room for, in one step.
                run = list(islice(frames, queue.capacity))
                for _ in range(queue.send_many(run, timeout=0)):
                    self.size -= len(frames.popleft())
        except SendTimeoutError:
            if len(frames) < before:
                self._pause_s = _ROOM_S
            elif now < self.again_at:
                return False  # tried early, along with other work
            else:
                self._pause_s = min(2 * self._pause_s, _ROOM_S_MAX)
            self.again_at = now + self._pause_s
            return False
        except DisconnectedError:
            frames.clear()
        return True


class LinkSetup:
    """The link set-up of one process; for its comm thread alone.

    Args:
        exchange, remote, link_pool: the instances of this process.
        policy: the rules of the network.
        join_state: notified if the master cannot be reached.
    """

    __slots__ = (
        "_exchange",
        "_helpers",
        "_join_state",
        "_link_pool",
        "_policy",
        "_remote",
    )

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        link_pool: LinkPool,
        policy: LinkPolicy,
        join_state: JoinState,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._link_pool: Final = link_pool
        self._helpers: Final = link_pool.helpers
        self._policy: Final = policy
        self._join_state: Final = join_state

    def accept_links(self, broker: LinkBroker) -> None:
        """Accept links at a broker.

        Raises:
            RuntimeError, MemoryError: see `LinkHelpers.accept_links`.
        """
        self._helpers.accept_links(broker, self._on_accepted)

    def add(self, queue: MessageQueue) -> None:
        """Add a link that another process has made to this one; for any thread."""
        self._helpers.add(queue, self._on_accepted)

    def _on_accepted(self, number: int) -> None:
        now, queue = _sync.monotonic(), self._link_pool.queue(number)
        credentials = self._policy.credentials(queue)
        self._exchange.decide(
            lambda: self._remote.on_link_accepted(number, now, credentials)
        )

    def dial(self, dial: Dial) -> None:
        """Dial a process; if it is the master and there is none, become master."""
        topology = self._remote.topology
        to_master = dial.key == (topology.me.machine, "")
        if to_master and (brokers := self._policy.claim_role()):
            try:
                for broker in brokers:
                    self.accept_links(broker)
            except (RuntimeError, MemoryError):  # a later attempt may succeed
                self._policy.on_end()
                for broker in brokers:  # else one of them would keep the address
                    broker.close()
                why = "this process can start no thread"
                self._on_dial_failed(dial, DialFailure(why))
            else:
                now, slaves = _sync.monotonic(), self._policy.slaves()
                self._exchange.decide(lambda: self._remote.become_master(now, slaves))
            return
        failures: list[DialFailure] = []

        def on_dialled(number: int | None) -> None:
            if number is None:
                if to_master:
                    self._join_state.on_no_master()
                self._on_dial_failed(dial, *failures)
            else:
                now = _sync.monotonic()
                credentials = self._policy.credentials(self._link_pool.queue(number))
                self._exchange.decide(
                    lambda: self._remote.on_link_dialled(
                        number, dial.kind, dial.key, now, credentials
                    )
                )

        def on_failed(failure: DialFailure) -> None:
            failures.append(failure)
            if failure.is_refusal and to_master:
                self._join_state.on_denied(failure.why)
            elif failure.is_refusal:
                topology.complain(f"no link with {_name(dial)}: {failure.why}")

        machine = dial.key[0]
        allowed = self._policy.addresses_to_dial(machine, dial.addresses)
        if not allowed:
            why = (
                f"{_name(dial)} is not dialled: the network of this process does not "
                f"permit {', '.join(dial.addresses)}"
            )
            topology.complain(why)
            self._on_dial_failed(dial, DialFailure(why, is_refusal=True))
            return
        self._helpers.dial(allowed, on_dialled, on_failed)

    def _on_dial_failed(self, dial: Dial, failure: DialFailure) -> None:
        now = _sync.monotonic()
        self._exchange.decide(
            lambda: self._remote.on_dial_failed(dial.kind, dial.key, now, failure)
        )


def _name(dial: Dial) -> str:
    """Return the process or the master that is dialled, for a line of the log."""
    machine, process = dial.key
    if process:
        return f"{machine}/{process}"
    # A static peer has its address in the place of its machine, until its HELLO.
    return "a master" if "://" in machine else f"the master of {machine}"


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
        if number not in self.unsent:
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
        waiting = self.unsent[number]
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
