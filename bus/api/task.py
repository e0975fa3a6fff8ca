"""`Task`: the public object of a registered task, the smallest client of a bus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from bus.api.arguments import (
    UNSET,
    OnFull,
    Unset,
    addressees,
    answer_timeout,
    check_callback,
    check_optional_callback,
    check_received,
    deadline_after,
    new_address,
)
from bus.api.bus_thread import BusThread, check_may_wait, in_callback
from bus.api.receiver import Receiver
from bus.api.reentry import MAIN, enter, guarded
from bus.api.sender import NO_QUESTION, NOTIFY, SEND, CommandHandle, Sender
from bus.api.task_owner import TaskOwner
from bus.errors import CommandTimeoutError
from bus.features.subscriptions.api import Subscriber, Subscription, Watch
from bus.kernel.tasks.routing_table import Entry
from bus.model.address import Address
from bus.model.loan import Loan
from bus.model.message import Incoming, Presence, Response
from bus.model.specification import Specification
from bus.process.account import Overflow
from bus.process.send_batch import SendBatch
from bus.process.thread_manager import call_in_host_thread, move
from queuebroker import _sync
from queuebroker.closable import Uncopyable

__all__ = ["Task", "Where"]

Where = str | Address


class Task(Uncopyable):
    """A registered task, which sends messages and receives them in its callbacks.

    `Bus.register` creates it. Any thread may call the methods. Callbacks run one at a
    time, in the thread that hosts the task. Sending returns at once, wherever the
    addressee is and even if it is busy (BUS-MSG-10).
    """

    __slots__ = ("_bus", "_entry", "_receiver", "_send_batches", "_sender")

    _in_place_of_copy: ClassVar[str] = "another process sends to its address"

    def __init__(self, bus: TaskOwner, entry: Entry, receiver: Receiver) -> None:
        self._bus: Final = bus
        self._entry: Final = entry
        self._receiver: Final = receiver
        # Before the first question: it may time out before the thread opens the task.
        receiver.entry = receiver.asker.entry = entry
        self._sender: Final = Sender(bus, entry, receiver)
        # Those of the sender, for the inlined path of `command`.
        self._send_batches: Final[dict[str, SendBatch]] = self._sender.send_batches

    def __repr__(self) -> str:
        left = self._receiver.leaving or self._entry.host is None
        return f"<Task {self._entry.address}{' deregistered' if left else ''}>"

    @property
    def address(self) -> Address:
        """The full address: name, machine and bus."""
        return self._entry.address

    @property
    def thread(self) -> BusThread:
        """The thread that hosts the task.

        Raises:
            UnknownTaskError: the task is deregistered.
        """
        thread: BusThread = self._sender.require_host().thread
        return thread

    # Receiving.

    @guarded("set a callback")
    def on_command(
        self, callback: Callable[[Incoming], Any], *, ref: object = None
    ) -> None:
        """Set the callback for all further commands (BUS-MSG-3).

        The return value of the callback is the answer. A callback that answers later
        returns `NOREPLY`.

        ref: passed to the callback as ``message.reference``.

        Raises:
            RuntimeError: it is the task of a `bus.aio.Task`, for coroutines.
        """
        check_callback("callback", callback)
        self._sender.require_host()
        self._check_plain("set a callback of")
        receiver = self._receiver
        call_in_host_thread(self._entry, lambda: receiver.set_callback(callback, ref))

    @guarded("set a callback")
    def on_leave(self, callback: Callable[[], Any]) -> None:
        """Set the callback that returns the state of the task for `Bus.hand_over`.

        It is called between two callbacks of the task, which then deregisters. The
        state is a payload. If it cannot be sent, the task remains registered, and the
        next attempt calls it again.

        Raises:
            TypeError: the callback is no function.
            UnknownTaskError: the task is deregistered.
        """
        check_callback("callback", callback)
        self._sender.require_host()
        self._receiver.on_leave = callback

    @guarded("receive")
    def receive(self, timeout: float | None = None) -> Incoming:
        """Wait for a command and return it; for tasks without a command callback.

        Only the thread that hosts the task may call this. It serves its other tasks
        while it waits.

        Raises:
            CommandTimeoutError: no command arrived in time.
            RuntimeError: called in another thread or within a callback, or the task
              has a command callback.
            UnknownTaskError: the task is deregistered, or its thread is stopped.
        """
        thread, name, receiver = self.thread, self._entry.name, self._receiver
        deadline = deadline_after(timeout)
        thread._check_mine(f"receive for {name!r}")
        if receiver.has_callback:
            msg = f"cannot receive for {name!r}: its commands go to a callback"
            raise RuntimeError(msg)

        def claimed() -> bool:
            self._sender.require_host()
            return receiver.claim()

        if not thread._serve_until(claimed, deadline):
            assert timeout is not None
            raise CommandTimeoutError(name, timeout, missing="command for")
        # No call from here: an interrupt before leaves the command for the next call.
        message = receiver.claimed
        assert message is not None
        receiver.claimed = None
        return message

    # Sending.

    def command(
        self,
        to: Where | Sequence[Where],
        payload: Any = None,
        # Pass these by keyword. A `*` would enforce that, but CPython looks up the
        # default of a keyword-only parameter in a dict at each call.
        bus: str | None = None,
        on_response: Callable[[Response], object] | None = None,
        ref: object = None,
        timeout: float | Unset | None = UNSET,
    ) -> CommandHandle:
        """Send a command to one task, or the same to several (BUS-MSG-2, BUS-MSG-8).

        to: names or addresses; ``ism://*/name`` is that on any machine (BUS-NAME-8).
        bus: the bus of the addressee; None for the bus of this task.
        on_response: called once for each addressee, with its answer or an error.
        ref: passed to ``on_response`` as `Response.reference`.
        timeout: the seconds until the command expires and the wait for an answer ends;
          None for no limit. The default is `BusConfig.command_timeout_s`.

        Raises:
            BusFullError: an addressee has no room; all others got the command. With
              several addressees, ``on_response`` gets this error instead, if set.
            PayloadError, MessageTooLargeError: the payload is refused; nothing is sent.
            NotJoinedError: this process has not joined that bus.
            UnknownTaskError: this task is deregistered.
        """
        try:
            send_batch = self._send_batches[to]  # type: ignore[index]  # a sequence is never a key
        except (KeyError, TypeError):
            if type(to) is Address:  # send batches are listed by its text
                return self.command(str(to), payload, bus, on_response, ref, timeout)
        else:
            if (
                type(payload) is bytes
                and timeout is UNSET
                and bus is None
                and on_response is None
                and send_batch.thread == _sync.get_ident()
            ):
                # Inlined from `SendBatch`, which explains it: a method call would add a
                # sixth to the cost of this path.
                payloads = send_batch.payloads
                if (
                    len(payloads) < send_batch.room
                    and len(payload) <= send_batch.length
                    # Another task may hold its name by now.
                    and send_batch.to.table is not None
                    and send_batch.source.order is send_batch.order
                ):
                    payloads.append(payload)
                    if send_batch.steady or Sender.confirm_batch(send_batch):
                        return NO_QUESTION
                elif Sender.add_to_batch(send_batch, payload):
                    return NO_QUESTION
        outer = enter(SEND)
        try:
            if on_response is None and type(to) is str:
                return self._sender.command_one(to, payload, bus, timeout)
            check_optional_callback("on_response", on_response)
            names = addressees(to)
            timeout = answer_timeout(self._bus._config, timeout)
            deadline = deadline_after(timeout)
            self._sender.require_host()
            return self._sender.command(
                names, payload, bus, on_response, ref, timeout, deadline
            )
        finally:
            if outer is False:
                MAIN.inside = False

    @guarded("call")
    def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        bus: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and wait for the answer; not within a callback (BUS-MSG-11).

        In the thread that hosts the task, the call serves the other tasks of that
        thread while it waits.

        Raises:
            RuntimeError: called within a callback; its thread may be the one that must
              deliver the answer.
            UnknownTaskError: this task is deregistered, before the call or during it.
            BusError: the command failed.
        """
        if in_callback():
            check_may_wait(
                f"call {str(to)!r}",
                ", whose thread may have to answer: use command(on_response=)",
            )
        return self._sender.call(to, payload, bus, timeout)

    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message that this task has received; see `Incoming.respond`."""
        check_received(message, self._entry)
        self._receiver.respond(message, payload, error=error)

    def notify(
        self,
        payload: Any = None,
        *,
        on_response: Callable[[Response], object] | None = None,
        ref: object = None,
        timeout: float | None = None,
    ) -> None:
        """Send a notification to all subscribers of this task (BUS-MSG-4).

        on_response: called for each answer that arrives within ``timeout`` seconds, and
          then once more, as ``final``, with the number of answers (BUS-MSG-9).
        ref: passed to ``on_response`` as `Response.reference`.
        timeout: the seconds to wait for answers; required with ``on_response``.

        The notification goes to the subscribers that this process knows now. If it has
        none, it is dropped and `TaskInfo.no_subscriber` counts it. A subscriber that
        must not miss the first one subscribes with ``wait=True``, then sends a command.
        A notifier that must not send too early calls `wait_for_subscribers` first.

        Raises:
            BusFullError: a subscriber has no room, and its policy reports that to the
              notifier; all others got the notification.
            ValueError: ``on_response`` without ``timeout``.
            PayloadError, MessageTooLargeError, UnknownTaskError: as for `command`.
        """
        alone = on_response is None and timeout is None
        if alone and type(payload) is bytes and self._sender.notify_bytes(payload):
            return
        outer = enter(NOTIFY)
        try:
            self._sender.notify(payload, on_response, ref, timeout)
        finally:
            if outer is False:
                MAIN.inside = False

    @guarded("wait for subscribers")
    def wait_for_subscribers(
        self, count: int = 1, timeout: float | None = None
    ) -> bool:
        """Wait until this task has ``count`` subscribers; False if time is up first.

        Each subscribing task of this process counts, and each other process with one or
        more of them: this process does not know their number there (BUS-MSG-19).
        From then on each notification reaches all of them, or a gap counts it.

        timeout: in seconds; None for no limit.

        Raises:
            TypeError, ValueError: ``count`` is no int, or below 1.
            RuntimeError: within a callback; its thread may have to answer.
            UnknownTaskError: this task deregisters, or its bus is closed meanwhile.
        """
        own = Subscriber(self._bus, self._entry, self._sender)
        return own.wait_for_subscribers(count, timeout)

    @guarded("take a loan")
    def loan(
        self,
        nbytes: int,
        *,
        on_full: OnFull = "error",
        timeout: float | Unset | None = UNSET,
    ) -> Loan:
        """Return a buffer for a message of ``nbytes`` bytes, to write in place (MC-41).

        on_full: if shared memory has no room, raise ("error") or wait for it ("wait").
        timeout: the seconds to wait; `BusConfig.send_timeout_s` by default.

        Raises:
            ArenaFullError: there is no room, or none in time.
            ValueError: ``nbytes`` is below 1, or exceeds the limit of a message.
            RuntimeError: "wait" within a callback.
            UnknownTaskError: this task is deregistered.
        """
        return self._bus._new_loan(self._sender, self._entry, nbytes, on_full, timeout)

    # Subscribing and watching.

    @guarded("subscribe")
    def subscribe(
        self,
        to: Where | Specification,
        callback: Callable[[Incoming], object],
        *,
        bus: str | None = None,
        ref: object = None,
        overflow: Overflow = "drop-oldest",
        capacity: int | None = None,
        wait: bool = False,
        timeout: float | Unset | None = UNSET,
    ) -> Subscription:
        """Subscribe to the notifications of a task, or a pattern (BUS-MSG-5, AMO-26).

        The subscription includes matching tasks that register later, and those that
        deregister and return. A task gets each notification once. If several of its
        subscriptions match, only the callback of the oldest is called;
        ``message.subscriptions`` holds all of them.

        bus: the bus of the notifiers; None for the bus of this task.
        ref: passed to the callback as ``message.reference``.
        overflow: the policy for a notification that arrives while ``capacity`` are
          unread (BUS-FLOW-6). The default bound is `BusConfig.task_fifo_messages`. If
          the policy ``disconnect`` cuts the subscriber off, `Subscription.active`
          becomes False.
        wait: return only when every process on the bus has confirmed the subscription;
          not within a callback. The subscriber gets each notification that a task of
          these processes sends from then on. Without ``wait`` it may miss notifications
          that a task of another process sends just after this call. No gap counts them,
          since that process has not received the subscription yet.
        timeout: the seconds to wait; `BusConfig.command_timeout_s` by default, None for
          no limit. If another process is stopped, the call waits for it.

        Raises:
            NotJoinedError, UnknownTaskError: as for `command`.
            CommandTimeoutError: a process has not confirmed the subscription in time;
              the subscription is cancelled.
            RuntimeError: ``wait`` within a callback; its thread may have to answer.
        """
        return Subscriber(self._bus, self._entry, self._sender).subscribe(
            to, callback, bus, ref, overflow, capacity, timeout, wait=wait
        )

    @guarded("watch")
    def watch(
        self,
        to: Where | Specification,
        callback: Callable[[Presence], object],
        *,
        bus: str | None = None,
        ref: object = None,
    ) -> Watch:
        """Watch which of the named tasks are registered; report each change.

        callback: called for each matching task that is registered now, and whenever
          one registers or deregisters.
        bus: the bus of the watched tasks; None for the bus of this task.
        ref: passed to the callback as `Presence.reference`.

        Raises:
            NotJoinedError, UnknownTaskError: as for `command`.
        """
        own = Subscriber(self._bus, self._entry, self._sender)
        return own.watch(to, callback, bus, ref)

    # Moving and deregistering.

    @guarded("move a task")
    def move(self, thread: BusThread) -> None:
        """Move to another thread of this process, after the current callback.

        Unread messages move too, in order (BUS-MOVE-2).

        Raises:
            RuntimeError: it is the task of a `bus.aio.Task`, for coroutines.
        """
        self._sender.require_host()
        self._check_plain("move")
        self._bus._threads.check_own(thread)
        thread._check_takes_tasks()
        move(self._entry, thread._manager, self._bus._exchange.trace_sink)

    def _check_plain(self, act: str) -> None:
        if self._receiver.reads_by is not None:
            msg = (
                f"cannot {act} {self._entry.name!r}: coroutines of its event loop"
                " receive its commands; deregister it, and register it again"
            )
            raise RuntimeError(msg)

    @guarded("deregister a task")
    def deregister(
        self, *, final: bool = False, moved_to: str | Address | None = None
    ) -> None:
        """Deregister from the bus; the task cannot be used afterwards.

        Its unread commands wait for the next task that registers the name. If
        ``final``, they fail at once (BUS-DEREG-8). Does nothing if the task is
        deregistered. If an interrupt ends the call, the next one completes it.

        moved_to: the address of the task on another machine, if it has moved there. For
          `BusConfig.resolve_timeout_s` the master of this machine reports it to each
          sender: its commands fail with `MovedError`. In a process with
          `BusConfig.follow_moved_tasks` they go to the new address
          instead (BUS-MOVE-9).

        Raises:
            ValueError: ``moved_to`` is no address of another machine on this bus, or is
              given along with ``final`` or for a private task.
        """
        self._bus._lifetime.check_process()
        new = new_address(self._entry, moved_to, final=final)
        self._receiver.leave(self._entry, final=final, moved_to=new)
