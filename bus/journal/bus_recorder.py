"""`BusRecorder`: what the bus tells of its messages, written to a journal.

It stands to the bus as `queuebroker.observer.Observer` stands to a channel. Who calls
it, and when, is part of what the rules B1 to B5 rest on and is said here, in the
terms of the places that call; each is called in the thread in which it happens.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from bus.events import BusOperation, BusReason
from bus.journal.format import Flag
from bus.message import Kind as MessageKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.journal.writer import Journal

__all__ = ["BusRecorder"]

_log = logging.getLogger("bus.journal")

_SORTS: Final = {
    MessageKind.COMMAND: 0,
    MessageKind.NOTIFICATION: Flag.MULTICAST,
    MessageKind.COMMAND_RESPONSE: Flag.ANSWER,
    MessageKind.NOTIFICATION_RESPONSE: Flag.MULTICAST | Flag.ANSWER,
}


class BusRecorder:
    """Records the operations of one process on one bus; never raises into it.

    ::

        recorder = BusRecorder(journal)
        recorder.registered(process, "")
        recorder(BusOperation.COMMAND, origin, mid, destination, 0, len(body))

    A registration is told by its number (`RegistrationId.number`), which no other one
    has, in whatever process; a process by the number of its life on the bus, from
    which its registrations are counted, so that no registration has it. The number of
    a message, `mid`, is given by its origin, rises with each command, and with each
    notification for each task that hears it here and once for all others, and travels
    with the message. An answer has the number of its question, which its own sort keeps
    apart (`bus.journal.format.Flag`).

    What is told of one message, in its order:

    ============  ============================================================
    COMMAND       `Task.command`, `Task.call`: the addressee is known, and the
                  message is about to be put into its inbox or its relay. Before
                  another thread can see it. Again, for another destination, when
                  it is sent elsewhere because the first one left.
    RESPOND       `Incoming.respond`, and an answer that the bus gives: likewise.
    NOTIFY        `Task.notify`: likewise, for each task of this process that hears
                  it, and once for each process in which anybody does, with the
                  number of that process as the destination. There again for each
                  task, with the hop it came by, after its RELAY_IN.
    RELAY_OUT     it is put on a link for the first time, before the system is told;
                  ``hop`` is one more than it came by. What a stream sends again, or
                  a new link takes over, is not told again.
    RELAY_IN      it was read from a link and accepted by its stream, so once; before
                  it is posted. ``hop`` is that of its RELAY_OUT.
    EXTRACT       the hosting thread took it out of the mailbox (it is now read); not
                  told of answers.
    DELIVER       its callback is about to begin, or who waits for it is about to
                  get it. For a process: it is about to be given to all who hear it
                  there.
    DISCARD       it was taken out and will not be delivered, and its sender is not
                  told: dropped, expired, cancelled, unread when its subscription
                  ended, or its addressee left (ADDRESSEE_GONE). What becomes of it
                  then is told next: COMMAND for somebody else, or UNDELIVERED.
    UNDELIVERED   it will not be delivered, and its sender is told: in the process of
                  who tells.
    IN_DOUBT      it was put on a link that is lost, and was not acknowledged.
    ============  ============================================================

    Whatever is told before a step is told once that nothing can prevent the step but
    the end of the process. A message that is refused was never accepted and is in no
    record; nor is a notification that finds no room on its way to other processes.
    """

    __slots__ = ("_emit", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal: Final = journal
        self._emit: Callable[..., None] = journal.emit

    def __call__(
        self,
        operation: BusOperation,
        origin: int,
        mid: int,
        destination: int,
        hop: int = 0,
        size: int = 0,
        reason: BusReason | int = 0,
        kind: MessageKind = MessageKind.COMMAND,
    ) -> None:
        """One step of one message; see the class for who calls with what.

        reason: of DISCARD, UNDELIVERED and IN_DOUBT.
        """
        try:
            # By position: naming them would take a third of the time.
            self._emit(
                operation,
                _SORTS[kind],
                reason,
                size,
                destination,
                0,
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

    def registered(self, registration: int, name: str) -> None:
        """A task has its name, and nothing was sent to it yet.

        Also called once for the process itself, with its number and no name, before it
        is joined.
        """
        try:
            task = self._journal.name(name)
            self._emit(
                BusOperation.REGISTER,
                flow=registration,
                origin=registration,
                task=task,
            )
        except Exception:  # noqa: BLE001 - as above
            self._switch_off()

    def deregistered(self, registration: int) -> None:
        """A task has left, and what it had not read was told of, each by itself."""
        self(BusOperation.DEREGISTER, registration, 0, registration)

    def moved(self, registration: int) -> None:
        """A task has its new thread, and nothing at the old one goes to it."""
        self(BusOperation.MOVE, registration, 0, registration)

    def link_up(self, pid: int, machine: str, process: str) -> None:
        """Another process was identified: its first link of any kind is open."""
        self._link(BusOperation.LINK_UP, pid, machine, process, 0)

    def link_down(
        self, pid: int, machine: str, process: str, reason: BusReason
    ) -> None:
        """Its last link is gone, and what was under way there was told of.

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
            name = self._journal.name
            task, peer = name(process), name(machine)
            self._emit(operation, reason=reason, mid=pid, task=task, peer=peer)
        except Exception:  # noqa: BLE001 - as above
            self._switch_off()

    def _switch_off(self) -> None:
        """Tell nothing any more, and say so once."""
        emit, self._emit = self._emit, _nothing
        if emit is not _nothing:
            _log.exception("recording the bus failed and is switched off")


def _nothing(*_: object, **__: object) -> None:
    pass
