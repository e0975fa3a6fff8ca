"""Faults of our own making: for clauses that no defect seen elsewhere touches."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["OURS", "WITHOUT"]

# Clauses of the hard groups for which no mutant is planted, and why.
WITHOUT: dict[str, str] = {}

_LIFO = (
    Edit(
        "circular_buffer.py",
        "        message = self._messages[0]\n        del self._messages[0]\n",
        "        message = self._messages[-1]\n        del self._messages[-1]\n",
    ),
)

_OWNED = (
    Edit(
        "end.py",
        '__slots__ = ("__weakref__", "_connection", "_side")',
        '__slots__ = ("__weakref__", "_connection", "_owner", "_side")',
    ),
    Edit(
        "end.py",
        "        self._side: Final = side\n",
        "        self._side: Final = side\n        self._owner = None\n",
    ),
    Edit(
        "end.py",
        "        connection = self._connection\n"
        "        deadline = deadline_after(timeout)\n",
        "        from queuebroker import _sync\n"
        "        self._owner = self._owner or _sync.get_ident()\n"
        "        assert self._owner == _sync.get_ident()\n"
        "        connection = self._connection\n"
        "        deadline = deadline_after(timeout)\n",
    ),
)


def _table(old: str, new: str) -> tuple[Edit, ...]:
    """One row of the tables of a connection, changed."""
    return (Edit("status.py", f"    {old},\n", f"    {new},\n"),)


_DISCONNECTS = (
    "        connection.critical("
    "lambda: connection.close_locked(self._side, error, reason))\n"
)

_RENDEZVOUS = (
    Mutant(
        "O1",
        "both callers get the same end",
        ("QB-RDV-1",),
        (
            Edit(
                "pairing.py",
                "LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 1)",
                "LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 0)",
            ),
        ),
    ),
    Mutant(
        "O2",
        "a match ignores the port",
        ("QB-RDV-4",),
        (
            Edit(
                "rendezvous.py",
                'for a call like this one."""\n'
                "        waiting = self._waiting.get((rdv.kind, rdv.port))\n",
                'for a call like this one."""\n'
                "        waiting = next(iter(self._waiting.values()), None)\n",
            ),
        ),
    ),
    Mutant(
        "O3",
        "an exclusive accept is like any other",
        ("QB-RDV-9",),
        (
            Edit(
                "rendezvous.py",
                "if not waiting or rdv.state is not RdVState.WAITING_ACCEPT:",
                "if waiting is not rdv:",
            ),
        ),
    ),
    Mutant(
        "O4",
        "a broker does not find itself",
        ("QB-RDV-10",),
        (
            Edit(
                "broker.py",
                "if target is not None and kind in target.kinds:",
                "if target not in (None, self) and kind in target.kinds:",
            ),
        ),
    ),
    Mutant(
        "O5",
        "the end of an interrupted caller is kept, and stays connected",
        ("QB-RDV-12",),
        (
            Edit(
                "meeting.py",
                "    if end is not None:\n        end.disconnect()\n",
                "    if end is not None:\n        rdv.caller.kinds.add(end)\n",
            ),
        ),
    ),
    Mutant(
        "O6",
        "connect raises for an unknown broker, asked to or not",
        ("QB-RDV-13",),
        (Edit("broker.py", "        if required:\n", "        if name:\n"),),
    ),
    Mutant(
        "O7",
        "connect returns None for an unknown broker, whatever was asked",
        ("QB-RDV-14",),
        (Edit("broker.py", "        if required:\n", "        if not name:\n"),),
    ),
    Mutant(
        "O8",
        "the ninth waiter of a broker is forgotten",
        ("QB-RDV-15",),
        (
            Edit(
                "rendezvous.py",
                "        self._waiting.setdefault(",
                "        if len(self) < 8:\n          self._waiting.setdefault(",
            ),
        ),
    ),
    Mutant(
        "O9",
        "a final rendez-vous can be matched again",
        ("QB-RDV-16",),
        (
            Edit(
                "rendezvous.py",
                "following = _TRANSITIONS.get((self.state, event))",
                "following = _TRANSITIONS.get((self.state, event), RdVState.MATCHED)",
            ),
        ),
    ),
    Mutant(
        "O10",
        "a port has no upper limit",
        ("QB-RDV-17",),
        (Edit("arguments.py", "if not 0 <= number < PORT_LIMIT:", "if number < 0:"),),
    ),
)

_SENDING = (
    Mutant(
        "O11",
        "the offset is ignored",
        ("QB-SEND-1",),
        (
            Edit(
                "arguments.py", "bytes(view[start:stop])", "bytes(view[: stop - start])"
            ),
        ),
    ),
    Mutant(
        "O12",
        "a send that ran out of time returns as if it had sent",
        ("QB-SEND-2", "QB-TIME-2"),
        (
            Edit(
                "locked_queue.py",
                "frozenset({Verdict.DO, Verdict.DROP})",
                "frozenset({Verdict.DO, Verdict.DROP, Verdict.WAIT})",
            ),
        ),
    ),
    Mutant(
        "O13",
        "a send to a full buffer is taken for done",
        ("QB-SEND-6", "QB-FIFO-3"),
        _table("(_C, False, False): _WAIT", "(_C, False, False): _DO"),
    ),
    Mutant(
        "O14",
        "the message is a view of the caller's buffer",
        ("QB-SEND-7",),
        (Edit("arguments.py", "bytes(view[start:stop])", "view[start:stop]"),),
    ),
    Mutant(
        "O15",
        "the state of the end is looked at before the arguments",
        ("QB-SEND-8",),
        (
            Edit(
                "locked_queue.py",
                "        message = snapshot(data, offset",
                "        if self.disconnected():\n"
                '            raise self._refusal("send")\n'
                "        message = snapshot(data, offset",
            ),
        ),
    ),
    Mutant(
        "O16",
        "max_message_size is off by one",
        ("QB-SEND-9",),
        (Edit("arguments.py", "len(message) > limit", "len(message) >= limit"),),
    ),
    Mutant(
        "O17",
        "a send on a disconnected end waits while the peer's buffer is full",
        ("QB-SEND-10",),
        (
            *_table("(_D, False, False): _REFUSE", "(_D, False, False): _WAIT"),
            *_table("(_D, False, True): _REFUSE", "(_D, False, True): _WAIT"),
        ),
    ),
    Mutant(
        "O50",
        "a disconnected end whose peer's buffer is full tells a poll to come back",
        ("QB-SEND-10",),
        _table("(_D, False, False): _REFUSE", "(_D, False, False): _WAIT"),
    ),
)

_RECEIVING = (
    Mutant(
        "O18",
        "last in, first out",
        ("QB-RECV-1", "QB-FIFO-1", "QB-FIFO-2", "QB-CONC-7"),
        _LIFO,
    ),
    Mutant(
        "O19",
        "a receive on an empty buffer is refused",
        ("QB-RECV-2",),
        _table("(_C, False): _WAIT", "(_C, False): _REFUSE"),
    ),
    Mutant(
        "O20",
        "nothing is received once the peer has hung up",
        ("QB-RECV-3",),
        _table("(_H, True): _DO", "(_H, True): _REFUSE"),
    ),
    Mutant(
        "O21",
        "a disconnect wakes one of those who wait",
        ("QB-RECV-5", "QB-DISC-15"),
        (
            Edit(
                "parking.py",
                "                if parker.locked():\n"
                "                    parker.release()\n"
                "            self._review()\n",
                "                if parker.locked():\n"
                "                    parker.release()\n"
                "                    break\n"
                "            self._review()\n",
            ),
            Edit(
                "sleepers.py",
                "        while self.sleeping:\n            self.wake_one()\n",
                "        if self.sleeping:\n            self.wake_one()\n",
            ),
        ),
    ),
    Mutant(
        "O22",
        "a disconnect takes back what a receive has taken",
        ("QB-RECV-6",),
        (
            Edit(
                "locked_queue.py",
                "        return taken[0]\n",
                "        if connection.closed[side]:\n"
                '            raise self._refusal("receive")\n'
                "        return taken[0]\n",
            ),
        ),
    ),
    Mutant(
        "O23",
        "what is received is of the sender's own class",
        ("QB-RECV-7",),
        (
            Edit(
                "arguments.py", "type(data) is bytes and", "isinstance(data, bytes) and"
            ),
        ),
    ),
    Mutant(
        "O24",
        "a message comes back to the end that sent it",
        ("QB-RECV-8",),
        (
            Edit(
                "queue_connection.py",
                "        peer = self.peer_of(side)\n",
                "        peer = side\n",
            ),
        ),
    ),
    Mutant(
        "O25",
        "the cause of an abnormal disconnect is not told",
        ("QB-RECV-9",),
        (Edit("end.py", "        error.__cause__ = cause\n", ""),),
    ),
    Mutant(
        "O26",
        "both directions share their slots",
        ("QB-FIFO-4",),
        (
            Edit(
                "pairing.py",
                "    flows = (Flow(messages[0])",
                "    messages[1]._free = messages[0]._free\n"
                "    flows = (Flow(messages[0])",
            ),
        ),
    ),
    Mutant(
        "O27",
        "connections share their messages",
        ("QB-FIFO-5",),
        (
            Edit(
                "circular_buffer.py",
                "        self._messages: deque[M] = deque()\n",
                "        self._messages = _shared\n",
            ),
            Edit(
                "circular_buffer.py",
                'M = TypeVar("M")\n',
                'M = TypeVar("M")\n_shared = deque()\n',
            ),
        ),
    ),
    Mutant(
        "O28",
        "a hang-up swallows the first message that is unread",
        ("QB-FIFO-6",),
        (
            Edit(
                "connection.py",
                "        self.flows[side].buffer.discard_locked()\n",
                "        self.flows[side].buffer.discard_locked()\n"
                "        if len(self.flows[1 - side].buffer):\n"
                "            self.flows[1 - side].buffer.pull_locked()\n",
            ),
        ),
    ),
)

_HANGING_UP = (
    Mutant(
        "O29",
        "an end that drains is called connected",
        ("QB-DISC-1",),
        _table("(False, True, True): _H", "(False, True, True): _C"),
    ),
    Mutant(
        "O30",
        "disconnected() is true while half-disconnected",
        ("QB-DISC-2",),
        (
            Edit(
                "end.py",
                "return self.status is Status.DISCONNECTED",
                "return self.status is not Status.CONNECTED",
            ),
        ),
    ),
    Mutant(
        "O31",
        "an end that has hung up goes on as long as its peer does not",
        ("QB-DISC-3",),
        _table("(True, False, False): _D", "(True, False, False): _C"),
    ),
    Mutant(
        "O32",
        "a new send is refused while half-disconnected",
        ("QB-DISC-6",),
        (
            *_table("(_H, True, False): _DROP", "(_H, True, False): _REFUSE"),
            *_table("(_H, False, False): _DROP", "(_H, False, False): _REFUSE"),
        ),
    ),
    Mutant(
        "O33",
        "a second disconnect is refused",
        ("QB-DISC-10",),
        (
            Edit(
                "connection.py",
                "        if self.hung_up[side]:\n            return\n",
                "        if self.hung_up[side]:\n            raise RuntimeError\n",
            ),
        ),
    ),
    Mutant(
        "O34",
        "what was unread is kept after the hang-up",
        ("QB-DISC-11",),
        (
            Edit(
                "connection.py",
                "        self.flows[side].buffer.discard_locked()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "O35",
        "with nothing unread an end is half-disconnected, not disconnected",
        ("QB-DISC-12",),
        (
            *_table("(False, True, False): _D", "(False, True, False): _H"),
            *_table("(_H, True): _DO", "(_H, True): _DO,\n    (_H, False): _REFUSE"),
        ),
    ),
    Mutant(
        "O36",
        "remote_disconnected is false while half-disconnected",
        ("QB-DISC-13",),
        (
            Edit(
                "end.py",
                "return self._connection.closed[1 - self._side]",
                "return self.disconnected() and self._connection.closed[1 - self._side]",
            ),
        ),
    ),
    Mutant(
        "O37",
        "disconnect returns before it is seen",
        ("QB-DISC-14",),
        (
            Edit(
                "end.py",
                _DISCONNECTS,
                "        def later():\n"
                "            with connection.lock:\n"
                "                connection.close_locked(self._side, error, reason)\n"
                "        from queuebroker import _sync\n"
                "        _sync.Thread(target=later, daemon=True).start()\n",
            ),
        ),
    ),
)

_TIME = (
    Mutant(
        "O38",
        "NaN passes for a timeout",
        ("QB-TIME-1",),
        (Edit("arguments.py", "if not timeout >= 0:", "if timeout < 0:"),),
    ),
    Mutant(
        "O39",
        "a wait ends a tenth too early",
        ("QB-TIME-2",),
        (Edit("arguments.py", "monotonic() + timeout", "monotonic() + timeout * 0.9"),),
    ),
    Mutant(
        "O40",
        "each wake-up grants another second",
        ("QB-TIME-3",),
        (
            Edit(
                "parking.py",
                "expired = not _sync.park(parker, ready, deadline)\n",
                "expired = not _sync.park(parker, ready, deadline)\n"
                "            deadline = deadline and deadline + 1\n",
            ),
        ),
    ),
    Mutant(
        "O41",
        "at the deadline nobody looks again",
        ("QB-TIME-5",),
        (
            Edit(
                "parking.py",
                "outcome = attempt()",
                "outcome = PENDING if expired else attempt()",
            ),
        ),
    ),
    Mutant(
        "O42",
        "a send that ran out of time leaves its message behind",
        ("QB-TIME-6",),
        (
            Edit(
                "locked_queue.py",
                "        if verdict not in _DONE:\n"
                "            raise self._unsent(verdict)\n\n",
                "        if verdict is Verdict.WAIT:\n"
                "            flow = self._connection.flows[1 - self._side]\n"
                "            flow.buffer._messages.append(message)\n"
                "        if verdict not in _DONE:\n"
                "            raise self._unsent(verdict)\n\n",
            ),
        ),
    ),
    Mutant(
        "O43",
        "a receive that ran out of time takes a message with it",
        ("QB-TIME-7",),
        (
            Edit(
                "locked_queue.py",
                "            raise self._nothing_came(timeout)\n",
                "            with connection.lock:\n"
                "                if self.pending:\n"
                "                    connection.take_locked(side, 0)\n"
                "            raise self._nothing_came(timeout)\n",
            ),
        ),
    ),
    Mutant(
        "O44",
        "timeout 0 gives up when somebody else is at it",
        ("QB-TIME-8",),
        (
            Edit(
                "end.py",
                "        verdict = connection.critical(partial(attempt, 0))\n",
                "        if timeout == 0 and connection.lock.locked():\n"
                "            return Verdict.WAIT\n"
                "        verdict = connection.critical(partial(attempt, 0))\n",
            ),
        ),
    ),
    Mutant(
        "O45",
        "an unknown broker is waited for until the timeout",
        ("QB-TIME-9",),
        (
            Edit(
                "broker.py",
                "        if required:\n",
                "        if deadline is not None:\n"
                "            from queuebroker import _sync\n"
                "            never = _sync.Lock()\n"
                "            never.acquire()\n"
                "            _sync.park(never, lambda: False, deadline)\n"
                "        if required:\n",
            ),
        ),
    ),
)

_CONCURRENCY = (
    Mutant(
        "O46",
        "an end belongs to the thread that used it first",
        ("QB-CONC-1", "QB-CONC-3"),
        _OWNED,
    ),
    Mutant(
        "O47",
        "a manager that closes disconnects under its own lock",
        ("QB-CONC-8",),
        (
            Edit(
                "broker_manager.py",
                "        for connection in connections:\n"
                "            connection.close_both()\n",
                "            for connection in connections:\n"
                "                connection.close_both()\n",
            ),
        ),
    ),
    Mutant(
        "O48",
        "a finalizer waits for the lock, perhaps for itself",
        ("QB-CONC-9",),
        (
            Edit(
                "connection.py",
                "                taken.extend(map(self.lock.acquire, (False,)))\n",
                "                taken.extend(map(self.lock.acquire, (True,)))\n",
            ),
        ),
    ),
    Mutant(
        "O49",
        "a woken sender does not wake the next one",
        ("QB-CONC-4",),
        (
            Edit(
                "circular_buffer.py",
                "        self._free.append(None)\n        self.wake_locked()\n",
                "        self._free.append(None)\n"
                "        if self.room:\n            self.room.wake_one()\n",
            ),
        ),
    ),
)

OURS: tuple[Mutant, ...] = (
    *_RENDEZVOUS,
    *_SENDING,
    *_RECEIVING,
    *_HANGING_UP,
    *_TIME,
    *_CONCURRENCY,
)
