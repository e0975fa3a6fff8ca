"""Mutants of what the bus tells a journal: too early, too often, not, or wrongly."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_TRACE"]

_TRACE = "bus/core/trace.py"
_CORRESPONDENCE = "bus/core/correspondence.py"
_INTAKE = "bus/core/intake.py"
_RELAY = "bus/core/relay.py"
_SESSION = "bus/core/session.py"

BUS_TRACE: tuple[Mutant, ...] = (
    Mutant(
        "K1",
        "that a command was accepted is told once others can see it",
        ("B3",),
        (
            Edit(
                "bus/threads/inbox.py",
                "                if message._trace is not None:  # before the owner can see it\n                    message._trace.accepted(message._to.id.number)\n                self.items.append(message)\n",
                "                self.items.append(message)\n",
            ),
            Edit(
                "bus/threads/inbox.py",
                "            each._source.box.client.was_dropped(each)\n        return admission\n",
                "            each._source.box.client.was_dropped(each)\n        if admission is Admission.ACCEPTED and message._trace is not None:\n            message._trace.accepted(message._to.id.number)\n        return admission\n",
            ),
        ),
    ),
    Mutant(
        "K2",
        "a message has its number before anybody has taken it",
        ("B5",),
        (
            Edit(
                _TRACE,
                "            numbers=self._numbers,\n            accepted_as=accepted_as,\n",
                "            mid=next(self._numbers),\n            accepted_as=accepted_as,\n",
            ),
        ),
    ),
    Mutant(
        "K3",
        "what another link carries again is told again",
        ("B2",),
        (
            Edit(
                _RELAY,
                "                parcel.trace.sent()\n",
                "                pass\n",
            ),
            Edit(
                _SESSION,
                "def _run(to: int, parcel: Parcel, now: float) -> Run:\n",
                "def _run(to: int, parcel: Parcel, now: float) -> Run:\n    if parcel.trace is not None:\n        parcel.trace.sent()\n",
            ),
        ),
    ),
    Mutant(
        "K4",
        "what comes twice is told twice, though it is taken once",
        ("B2",),
        (
            Edit(
                _INTAKE,
                "                session.repeat_ack()\n            runs = accepted\n",
                "                session.repeat_ack()\n                for _, run in singly:\n                    again = self._commands(peer, run)\n                    if again is not None:\n                        to = again._post.entry.id.number\n                        self._arrived(run, again._source, to, 0)\n            runs = accepted\n",
            ),
        ),
    ),
    Mutant(
        "K5",
        "what a task leaves unread is not told",
        ("B3",),
        (
            Edit(
                "bus/core/process_manager.py",
                "                message._trace.discarded(BusReason.ADDRESSEE_GONE)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "K6",
        "of what is in doubt it is told that it is not delivered",
        ("B3",),
        (
            Edit(
                _TRACE,
                "        if isinstance(error, InDoubtError):\n",
                "        if isinstance(error, bool):\n",
            ),
        ),
    ),
    Mutant(
        "K7",
        "a command is said to be delivered before it is taken out",
        ("B3",),
        (
            Edit(
                "bus/api/receiver.py",
                "            elif self._extracted(item):\n                item.reference = self._reference\n                if item._trace is not None:\n                    item._trace.delivered()\n                self._command(callback, item)\n",
                "            else:\n                if item._trace is not None:\n                    item._trace.delivered()\n                if not self._extracted(item):\n                    return\n                item.reference = self._reference\n                self._command(callback, item)\n",
            ),
        ),
    ),
    Mutant(
        "K8",
        "all who hear a notification in another process share one trace",
        ("B3",),
        (
            Edit(
                _INTAKE,
                "                _trace=None if trace is None else trace.for_hearer(),\n",
                "                _trace=trace,\n",
            ),
        ),
    ),
    Mutant(
        "K9",
        "a link does not count as a hop",
        ("B2",),
        (
            Edit(
                _TRACE,
                "BusOperation.RELAY_OUT, hop=self.hop + 1)",
                "BusOperation.RELAY_OUT, hop=self.hop)",
            ),
        ),
    ),
    Mutant(
        "K10",
        "what came by a link has the hop that it had before",
        ("B2",),
        (
            Edit(
                "bus/core/arriving.py",
                "        hop=run.hop + 1,\n",
                "        hop=run.hop,\n",
            ),
        ),
    ),
    Mutant(
        "K11",
        "commands travel in bursts though they are recorded",
        ("B2",),
        (
            Edit(
                "bus/api/task.py",
                "        elif entry.remote and usual and self._tracer is None:\n",
                "        elif entry.remote and usual:\n",
            ),
        ),
    ),
    Mutant(
        "K12",
        "the number of a message does not travel with it",
        ("B2",),
        (
            Edit(
                _SESSION,
                "        0 if parcel.trace is None else parcel.trace.mid,\n",
                "        0,\n",
            ),
        ),
    ),
    Mutant(
        "K13",
        "an answer has a number of its own",
        ("B3",),
        (
            Edit(
                _TRACE,
                "            mid=self.mid,\n            accepted_as=BusOperation.RESPOND,\n",
                "            mid=self.mid + 1,\n            accepted_as=BusOperation.RESPOND,\n",
            ),
        ),
    ),
    Mutant(
        "K14",
        "a process that leaves in order is said to have died",
        ("J1",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "BusReason.DIED if torn else BusReason.LEFT",
                "BusReason.DIED",
            ),
        ),
    ),
    Mutant(
        "K15",
        "a process that died is said to have left",
        ("J1",),
        (
            Edit(
                "bus/links/lines.py",
                "                    if error.__cause__ is not None:\n",
                "                    if error.__cause__ is error:\n",
            ),
        ),
    ),
    Mutant(
        "K16",
        "of what is sent elsewhere it is not told that the first one gave it back",
        ("B3",),
        (
            Edit(
                _TRACE,
                "            self.discarded(BusReason.ADDRESSEE_GONE)\n        self.destination",
                "            pass\n        self.destination",
            ),
        ),
    ),
    Mutant(
        "K17",
        "one trace stands for a notification in all processes that hear it",
        ("B2",),
        (
            Edit(
                _CORRESPONDENCE,
                "                each = replace(parcel, trace=trace.for_hearer())\n",
                "                each = replace(parcel, trace=trace)\n",
            ),
        ),
    ),
    Mutant(
        "K18",
        "a notification that is dropped on its way abroad is not told",
        ("B3",),
        (
            Edit(
                _RELAY,
                "            notification.trace.discarded(reason)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "K19",
        "an answer that comes too late is not told to be dropped",
        ("B3",),
        (
            Edit(
                "bus/api/receiver.py",
                "            answer._trace.discarded(BusReason.UNWANTED)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "K20",
        "what waits for a name loses its turn",
        ("B5",),
        (
            Edit(
                "bus/threads/exchange.py",
                "        if entry is None and message._trace is not None:\n            message._trace.number()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "K21",
        "each link with a process is told, and not only the first",
        ("B2",),
        (
            Edit(
                "bus/core/links.py",
                "        if peer.pid is None:\n            peer.pid = identity.process_id\n",
                "        if True:\n            peer.pid = identity.process_id\n",
            ),
        ),
    ),
)
