"""`BusRecorder`: writes the operations of the bus on its messages to a journal.

It is to the bus what `queuebroker.observer.Observer` is to a channel. The rules B1 to
B6 rest on where and when it is called, which this module specifies in terms of the
calling code. Each call is made in the thread in which the operation happens.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from bus.journal.format import Flag
from bus.model.events import BusOperation, BusReason
from bus.model.message import Kind as MessageKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.journal.recorder import Emit

__all__ = ["BusRecorder"]

_log = logging.getLogger("bus.journal")

# Plain numbers: to combine two `Flag`s takes as long as to write the record.
_SORTS: Final = {
    MessageKind.COMMAND: 0,
    MessageKind.NOTIFICATION: int(Flag.NOTIFICATION),
    MessageKind.COMMAND_RESPONSE: int(Flag.ANSWER),
    MessageKind.NOTIFICATION_RESPONSE: int(Flag.NOTIFICATION | Flag.ANSWER),
}
_PAYLOAD, _TRUNCATED, _ERROR = map(int, (Flag.PAYLOAD, Flag.TRUNCATED, Flag.ERROR))


def _nothing(*_: object, **__: object) -> None:
    pass


class BusRecorder:
    """Records the operations of one process on one bus; never raises into it.

    ::

        recorder = BusRecorder(journal.emit, journal.name)
        recorder.on_registered(process, "")
        recorder.record(BusOperation.COMMAND, origin, mid, destination, 0, len(body))

    A registration is identified by its number (`RegistrationId.number`), which is
    unique across processes. A process is identified by the number of its life on the
    bus, from which its registrations are counted, so no registration has it.

    The origin of a message gives it its number, `mid`, which travels with the message.
    It rises with each command. For a notification, it rises with each subscribing task
    in this process, and once for all other processes. An answer has the number of its
    question; its own sort distinguishes the two (`bus.journal.format.Flag`).

    The records of one message, in order:

    ============  ============================================================
    COMMAND       `Task.command`, `Task.call`: the addressee is known, and the
                  message is about to be put into its inbox or its relay, before
                  another thread can see it. Repeated, with the new destination, if
                  the first one left and the message is sent elsewhere.
    RESPOND       `Incoming.respond`, and an answer that the bus gives: likewise.
    NOTIFY        `Task.notify`: likewise, for each subscribing task of this process,
                  and once for each process with a subscriber, with the number of
                  that process as the destination. Repeated there for each task, with
                  the hop of its arrival, after its RELAY_IN.
    RELAY_OUT     it is put on a link for the first time, before the system call;
                  ``hop`` is one more than on its arrival. If a stream resends it, or
                  a new link takes it over, this is not recorded again.
    RELAY_IN      it was read from a link and accepted by its stream, hence once, and
                  before it is posted. ``hop`` is that of its RELAY_OUT.
    EXTRACT       the hosting thread took it out of the mailbox (it is now read); not
                  recorded for answers.
    DELIVER       its callback is about to begin, or the waiting caller is about to
                  get it. For a process: it is about to be given to all its
                  subscribers there.
    DISCARD       it was taken out and will not be delivered, and its sender is not
                  informed: dropped, expired, cancelled, unread when its subscription
                  ended, or its addressee left (ADDRESSEE_GONE). Its further course
                  follows: COMMAND for another addressee, or UNDELIVERED.
    UNDELIVERED   it will not be delivered, and its sender is informed; recorded in the
                  process that informs it.
    IN_DOUBT      it was put on a link that is lost, and was not acknowledged.
    ============  ============================================================

    A record before a step is written once only the end of the process can prevent the
    step. A message that is refused was never accepted and is in no record; nor is a
    notification that finds no room on its way to other processes.

    If the payload of a message is kept, the process of its sender keeps it, before the
    first of COMMAND, RESPOND and NOTIFY. All of these records in that process name it.

    The events of a task that `on_task_event` records, with its number and its name:

    ===========  =============================================================
    DEREGISTER   it has left, after a record of each unread message.
    MOVE         it has its new thread, and gets nothing at the old one.
    SUBSCRIBE    it is about to subscribe, before it can get a notification. The
                 number is that of the subscription, unique in this process; the name
                 is that of the notifiers, or a pattern of names.
    UNSUBSCRIBE  the subscription of that number has ended, so no further callback
                 begins. If another thread cancels it, one may be about to begin.
    ===========  =============================================================

    note: writes the number and the name of a registration beside the records, of which
      the oldest may be deleted.
    keeps_payloads, write_payload: as in `bus.kernel.trace.TraceSink`; the latter
      without its flags.
    """

    __slots__ = ("_emit", "_name", "_note", "_write_payload", "keeps_payloads")

    def __init__(
        self,
        emit: Emit,
        name: Callable[[str], int],
        keeps_payloads: Callable[[str], bool] | None = None,
        write_payload: Callable[[Any, bytes | memoryview | None], tuple[int, bool]]
        | None = None,
        note: Callable[[int, str], None] = _nothing,
    ) -> None:
        self.keeps_payloads: Final = keeps_payloads
        self._name: Final = name
        self._emit: Callable[..., None] = emit
        self._write_payload: Final = write_payload
        self._note: Final = note

    def record(
        self,
        operation: BusOperation,
        origin: int,
        mid: int,
        destination: int,
        hop: int = 0,
        size: int = 0,
        reason: BusReason | int = 0,
        kind: MessageKind = MessageKind.COMMAND,
        flags: int = 0,
        location: int = 0,
    ) -> None:
        """Record one step of one message; the class specifies the calls.

        reason: for DISCARD, UNDELIVERED and IN_DOUBT.
        flags, location: of `write_payload`, for COMMAND, RESPOND and NOTIFY.
        """
        try:
            # By position: keywords would account for a third of the time.
            self._emit(
                operation,
                _SORTS[kind] | flags,
                reason,
                size,
                destination,
                location,
                origin,
                mid,
                0,
                0,
                0,
                0,
                hop,
            )
        except Exception:  # noqa: BLE001 - recording must never fail the bus
            self._switch_off()

    def write_payload(
        self, payload: Any, encoded: bytes | memoryview | None, *, failed: bool
    ) -> tuple[int, int]:
        """Write a payload; return flags and location, both 0 if there is no room."""
        try:
            assert self._write_payload is not None
            location, truncated = self._write_payload(payload, encoded)
        except Exception:  # noqa: BLE001 - as above
            self._switch_off()
            return 0, 0
        if not location:
            return 0, 0
        flags = _PAYLOAD | _ERROR if failed else _PAYLOAD
        return flags | _TRUNCATED if truncated else flags, location

    def on_registered(self, registration: int, name: str) -> None:
        """Record that a task has its name, before anything was sent to it.

        Also called once for the process itself, with its number and no name, before it
        joins.
        """
        if name:
            try:
                self._note(registration, name)
            except Exception:  # noqa: BLE001 - as above
                self._switch_off()
        self.on_task_event(BusOperation.REGISTER, registration, name=name)

    def on_task_event(
        self,
        operation: BusOperation,
        registration: int,
        number: int = 0,
        name: str = "",
    ) -> None:
        """Record an event of a task; the class lists the events."""
        try:
            task = self._name(name)
            self._emit(
                operation,
                flow=registration,
                origin=registration,
                mid=number,
                task=task,
            )
        except Exception:  # noqa: BLE001 - as above
            self._switch_off()

    def link_up(self, pid: int, machine: str, process: str) -> None:
        """Record that another process was identified: its first link is open."""
        self._link(BusOperation.LINK_UP, pid, machine, process, 0)

    def link_down(
        self, pid: int, machine: str, process: str, reason: BusReason
    ) -> None:
        """Record that its last link is lost, after a record of each message on it.

        reason: DIED only if its system closed the link, unasked, without a farewell,
          on this machine: then its journal has no end (`Journal.record_death`). Else
          LEFT or GIVEN_UP.
        """
        self._link(BusOperation.LINK_DOWN, pid, machine, process, reason)

    def _link(
        self,
        operation: BusOperation,
        pid: int,
        machine: str,
        process: str,
        reason: BusReason | int,
    ) -> None:
        try:
            task, peer = self._name(process), self._name(machine)
            self._emit(operation, reason=reason, mid=pid, task=task, peer=peer)
        except Exception:  # noqa: BLE001 - as above
            self._switch_off()

    def _switch_off(self) -> None:
        """Record nothing from now on, and log that once."""
        emit, self._emit = self._emit, _nothing
        if emit is not _nothing:
            _log.exception("recording the bus failed and is switched off")
