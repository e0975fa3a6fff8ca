"""`Lines`: the links of one process as message queues, and one place to wait for all.

A link is a `MessageQueue` that a `QueueBroker` gave (BUS-CHAN-1). To make one may take
a while, and nobody who serves others may wait for it (BUS-CHAN-3): one helper thread
for each broker lets others in, and one for each link that is being made asks elsewhere.
All else is for the one thread that owns this, and it waits only in `wait`.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from bus.core.wire import FRAME_BYTES_MAX
from bus.links.unsent import Unsent
from queuebroker import _sync
from queuebroker.errors import (
    DisconnectedError,
    MessageTooLargeError,
    QueueBrokerError,
    ReceiveTimeoutError,
    SendTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.links.sleep import Lead, Sleep
    from bus.threads.inbox import Inbox
    from queuebroker.message_queue import MessageQueue
    from queuebroker.queue_broker import QueueBroker
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["PORT", "Lines", "LinkBroker"]

LinkBroker: TypeAlias = "QueueBroker | SocketQueueBroker"

PORT: Final = 1  # of a broker, where links are made
_FRAMES_MAX: Final = 256  # taken from one link before the others have their turn


class Lines:
    """The links of a process, by the numbers that it gives them.

    Args:
        inbox: what wakes the owner, beside frames.
        ask: lets the owner call something; from any thread.
        capacity: frames that fit in each direction of a link (BUS-CHAN-8).
        timeout_s: how long the making of a link may take; and its end, until what was
            sent before has found room.
        sleep: how the owner waits for frames.
        refusal: says why this process wants no link with who was dialled; None if it
            does (BUS-SEC-2).
        backlog: how many frames may wait for room in a link, and how many bytes, before
            it is given up (BUS-CHAN-8).
        given_up: told then, with the number of the link, and why; that it is lost is
            told as ever.
        turned_away: told of a link that is of no use as soon as it is made, in a line.
    """

    __slots__ = (
        "_ask",
        "_backlog",
        "_brokers",
        "_capacity",
        "_causes",
        "_closed",
        "_closing",
        "_given_up",
        "_helpers",
        "_inbox",
        "_numbers",
        "_queues",
        "_refusal",
        "_sleep",
        "_timeout_s",
        "_turned_away",
        "_unsent",
    )

    def __init__(
        self,
        inbox: Inbox,
        ask: Callable[[Callable[[], object]], None],
        *,
        capacity: int,
        timeout_s: float,
        sleep: Sleep,
        refusal: Callable[[MessageQueue], str | None],
        backlog: tuple[int, int],
        given_up: Callable[[int, str], object],
        turned_away: Callable[[str], object],
    ) -> None:
        self._inbox: Final = inbox
        self._ask: Final = ask
        self._capacity: Final = capacity
        self._timeout_s: Final = timeout_s
        self._sleep: Final = sleep
        self._refusal: Final = refusal
        self._backlog: Final = backlog
        self._given_up: Final = given_up
        self._turned_away: Final = turned_away
        self._numbers = itertools.count(1)
        self._queues: Final[dict[int, MessageQueue]] = {}
        # What found a link full, and links that end once that was sent, or then.
        self._unsent: Final[dict[int, Unsent]] = {}
        self._closing: Final[dict[int, float]] = {}
        self._causes: Final[dict[int, BaseException]] = {}
        self._brokers: Final[list[LinkBroker]] = []
        self._helpers: Final[list[_sync.Thread]] = []
        self._closed: bool = False

    # Links that are made.

    def let_in(self, broker: LinkBroker, made: Callable[[int], object]) -> None:
        """Accept links at a broker until `close`; tell the number of each.

        Raises:
            RuntimeError: no thread can be started for that; the broker is closed.
        """
        if self._closed:
            broker.close()
            return
        self._brokers.append(broker)

        def accept() -> None:
            try:
                while True:
                    queue = broker.accept(PORT, capacity=self._capacity)
                    if why := _unfit(queue):
                        self._turn_away(queue, f"somebody is turned away: {why}")
                    else:
                        self._hand_over(queue, made)
            except QueueBrokerError:
                return  # the broker is closed

        try:
            self._help(f"{broker.name} accepts", accept)
        except RuntimeError:
            self._brokers.remove(broker)
            broker.close()
            raise

    def dial(
        self,
        addresses: Iterable[str],
        made: Callable[[int | None], object],
        denied: Callable[[str], object] | None = None,
    ) -> None:
        """Make a link with whoever listens at the first of some addresses.

        made: is told the number of the link; None if nobody lets this process in.
        denied: before that, why not, if somebody has said so or is not to be trusted.
        """
        if self._closed:
            return
        broker = self._brokers[0]

        def connect() -> None:
            why = ""
            for address in addresses:
                if _is_elsewhere(address):
                    why = f"{address}: no socket of this machine"
                    continue
                try:
                    queue = broker.connect(address, PORT, timeout=self._timeout_s)
                except QueueBrokerError as error:
                    if broker.closed:
                        return
                    if isinstance(error, PermissionError):
                        why = str(error)
                    continue  # it is there, and does not accept, or closes
                except (PermissionError, ValueError) as error:
                    # ValueError: an address that another process gave.
                    why = f"{address}: {getattr(error, 'strerror', error)}"
                    continue
                except Exception as error:  # noqa: BLE001 # of this process, such as
                    # a lack of descriptors: a later dial may succeed.
                    words = f"cannot connect to {address}: {error}"
                    self._ask(partial(self._turned_away, words))
                    continue
                if queue is not None:
                    why = self._refusal(queue) or ""
                    unfit = _unfit(queue)
                    if not why and not unfit:
                        self._hand_over(queue, made)
                        return
                    if why:
                        queue.disconnect()
                    else:
                        self._turn_away(queue, f"{address} is not used: {unfit}")
            if why and denied is not None:
                self._ask(partial(denied, why))
            self._ask(lambda: made(None))

        try:
            self._help(f"{broker.name} connects", connect)
        except RuntimeError:  # the system is out of threads: another time, maybe
            self._ask(lambda: made(None))

    def _help(self, name: str, work: Callable[[], None]) -> None:
        self._helpers[:] = [each for each in self._helpers if each.is_alive()]
        helper = _sync.Thread(target=work, name=name, daemon=True)
        self._helpers.append(helper)
        try:
            helper.start()
        except RuntimeError:
            self._helpers.remove(helper)  # nobody can wait for what never ran
            raise

    def _turn_away(self, queue: MessageQueue, words: str) -> None:
        queue.disconnect()
        self._ask(partial(self._turned_away, words))

    def _hand_over(self, queue: MessageQueue, made: Callable[[int], object]) -> None:
        number = next(self._numbers)

        def own() -> None:
            if self._closed:
                queue.disconnect()  # else whoever is there would wait for a word
                return
            self._queues[number] = queue
            self._sleep.attend(number, queue)
            made(number)

        self._ask(own)

    def queue(self, number: int) -> MessageQueue:
        """Return what a link is that was just made."""
        return self._queues[number]

    # What goes over them.

    def send(self, number: int, frame: bytes) -> bool:
        """Put a frame on a link; on one that is gone, nowhere (BUS-CHAN-4).

        False if it waits for room there.
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
                pass  # that is told when what came before is read (BUS-CHAN-5)
            except MessageTooLargeError:
                self._end(number, f"it takes no frame of {len(frame)} bytes")
                return False
            return True
        waiting.append(frame)
        frames_max, bytes_max = self._backlog
        if len(waiting.frames) > frames_max or waiting.size > bytes_max:
            # Who is there reads nothing. If it does after all, it makes another link,
            # or this process does; nothing is lost by that.
            self._end(number, "it is full")
        return False

    def _end(self, number: int, why: str) -> None:
        """End a link that does not take what goes over it."""
        self._given_up(number, why)
        self._unsent.pop(number, None)
        self._queues[number].disconnect()

    def give_up(self, number: int) -> None:
        """Close a link at once, as if it had been lost; from any thread."""
        queue = self._queues.get(number)
        if queue is not None:
            queue.disconnect()

    def stir(self, number: int) -> None:
        """Let a link be looked at in the next `take`; from any thread."""
        self._sleep.again(number)

    def lead(self, number: int) -> Lead | None:
        """Return what lets another thread wait at a link; None if it is gone."""
        queue = self._queues.get(number)
        return None if queue is None else self._sleep.lead(queue)

    def hang_up(self, number: int) -> None:
        """Close a link, behind all that was sent on it, unless that takes too long."""
        if number in self._unsent:
            self._closing[number] = _sync.monotonic() + self._timeout_s
        else:
            self._let_go(number)

    @property
    def sending(self) -> bool:
        """Whether anything waits for room in a link that was not hung up."""
        return bool(self._unsent) and not self._closing.keys() >= self._unsent.keys()

    def resume(self) -> None:
        """Send what waited for room; let go of what was hung up too long ago."""
        if not self._unsent:
            return
        now = _sync.monotonic()
        for number, waiting in list(self._unsent.items()):
            try:
                done = waiting.send(self._queues[number], now)
            except MessageTooLargeError:
                frame = waiting.frames[0]
                self._end(number, f"it takes no frame of {len(frame)} bytes")
                done = True
            if done:
                self._unsent.pop(number, None)
            if number in self._closing and (done or self._closing[number] <= now):
                self._let_go(number)

    def take(self) -> list[tuple[int, bytes | None]]:
        """Take in what came: frames by number, None for a link that is gone."""
        came: list[tuple[int, bytes | None]] = []
        for number in self._sleep.stirred():
            queue = self._queues.get(number)
            if queue is None:
                continue  # hung up since
            try:
                frames = queue.receive_many(_FRAMES_MAX, timeout=0)
            except ReceiveTimeoutError:
                if queue.remote_disconnected:
                    self._sleep.again(number)  # something is on its way yet
                continue
            except DisconnectedError as error:
                if number not in self._closing:
                    came.append((number, None))
                    if error.__cause__ is not None:
                        self._causes[number] = error.__cause__
                self._let_go(number)
                continue
            # Of more frames the queue itself tells again; but not of the loss that may
            # be behind the last one.
            if queue.remote_disconnected:
                self._sleep.again(number)
            if number not in self._closing:
                came += [(number, frame) for frame in frames]
        return came

    def cause(self, number: int) -> BaseException | None:
        """Return why a link ended with no good-bye; asked once of each that is gone.

        A `PeerLostError` where a process has died, a `ProtocolError` where one broke
        the rules of links, a `RemoteError` where the other one says so of this, None
        for one that was left in order.
        """
        return self._causes.pop(number, None)

    def _let_go(self, number: int) -> None:
        self._unsent.pop(number, None)
        self._closing.pop(number, None)
        queue = self._queues.pop(number, None)
        if queue is not None:
            self._sleep.neglect(number)
            queue.disconnect()

    # The owner's sleep.

    def wait(self, ready: Callable[[], bool], deadline: float | None) -> None:
        """Sleep until a frame or a loss may be here, or ``ready``, or time is up.

        ready: looked at whenever something was posted to the inbox.
        deadline: on the monotonic clock in seconds; None for never.
        """
        times = [each.again_at for each in self._unsent.values()]
        if times:
            times += self._closing.values()
            soon = min(times)
            deadline = soon if deadline is None else min(soon, deadline)
        self._sleep.until(self._inbox, ready, deadline)

    # The end.

    def close(self) -> None:
        """Let nobody in any more, and hang up everywhere; frames on the way arrive.

        What a helper hands over while this waits for it is asked for, as ever, and hung
        up when that is called.
        """
        self._closed = True
        for broker in self._brokers:
            broker.close()
        for number in list(self._queues):
            self._let_go(number)
        self._sleep.join(self._helpers)
        self._sleep.close()


def _is_elsewhere(address: str) -> bool:
    """Whether an address, which another process gave, is not of a UNIX socket.

    Links are made within a machine: nobody shall send this process to any other place.
    """
    return "://" in address and not address.startswith("ipc://")


def _unfit(queue: MessageQueue) -> str:
    """Say why a link is of no use to any process; "" if it is not (BUS-CHAN-6)."""
    limit = queue._connection.limit
    if limit is None or limit >= FRAME_BYTES_MAX:
        return ""
    return f"its link takes {limit} bytes at once, and not {FRAME_BYTES_MAX}"
