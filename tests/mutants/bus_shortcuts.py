"""Mutants of what goes over a link past the comm thread, and past the books (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_SHORTCUTS"]

_SHORTCUT = "bus/core/shortcut.py"
_BYPASS = "bus/links/bypass.py"

BUS_SHORTCUTS: tuple[Mutant, ...] = (
    Mutant(
        "Y1",
        "a question goes past what is to be said before it",
        ("BUS-MSG-15",),
        (Edit(_SHORTCUT, "            and not session.speaks\n", ""),),
    ),
    Mutant(
        "Y2",
        "a question goes past what waits in its relay",
        ("BUS-MSG-15",),
        (Edit(_SHORTCUT, "            and not relay.queue\n", ""),),
    ),
    Mutant(
        "Y3",
        "a question goes by a link that is not in use any more",
        ("BUS-MSG-15",),
        (
            Edit(
                _SHORTCUT,
                "            self.stands\n            and session.room",
                "            session.room",
            ),
        ),
    ),
    Mutant(
        "Y7",
        "what a guest sends is not looked at if it comes past the books",
        ("BUS-SEC-1",),
        (Edit(_SHORTCUT, " or not peer.rights.whole", ""),),
    ),
    Mutant(
        "Y8",
        "who puts something on a link does not look at what was posted before",
        ("BUS-MSG-15",),
        (
            Edit(
                _BYPASS,
                "            or rounds.inbox.items\n            or rounds.outbox\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y9",
        "who is struck as it puts something on a link leaves that as it is",
        ("QB-ERR-9",),
        (
            Edit(
                _BYPASS,
                "            self.give_up(link if noted is None else noted.shortcut.link)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y10",
        "what was read of a link and is not plain is dropped",
        ("BUS-CHAN-7",),
        (Edit(_BYPASS, "                given.append((short.link, frame))\n", ""),),
    ),
    Mutant(
        "Y11",
        "what was read of a link overtakes what was handed to the comm thread",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "not (given or self._rounds.watched or self._midway",
                "not (self._rounds.watched or self._midway",
            ),
        ),
    ),
    Mutant(
        "Y12",
        "what comes past the comm thread is not seen by who looks at frames",
        ("OPEN-12",),
        (
            Edit(
                _BYPASS,
                "not (given or self._rounds.watched or self._midway",
                "not (given or self._midway",
            ),
        ),
    ),
    Mutant(
        "Y13",
        "what came past the comm thread is told to nobody until something happens",
        ("BUS-FLOW-7",),
        (
            Edit(
                _BYPASS,
                "            if slipped and not short.peer.session.watched:\n                self._soon()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y14",
        "nobody is told that the peer of a link has gone where a task waits",
        ("BUS-CHAN-5",),
        (
            Edit(
                _BYPASS,
                "        if lead.ended:\n            bypass.look_at(short.link)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y15",
        "who has the lead of a link does not give it back",
        ("QB-SOCK-8",),
        (
            Edit(
                "sockets/lead.py",
                "            connection.link.yield_locked(wanted=True)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "Y16",
        "a lone frame with a part too much is read",
        ("BUS-WIRE-4",),
        (
            Edit(
                "bus/core/wire/lone.py",
                "        or length != size\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y20",
        "what was done in a thread while it waited at a link is not looked at",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            if late or self._ready or self._requests or self.inbox.items:\n",
                "            if late or self.inbox.items:\n",
            ),
        ),
    ),
    Mutant(
        "Y21",
        "a question goes past the books to who had the name before",
        ("BUS-ROUTE-3",),
        (
            Edit(
                _SHORTCUT,
                "            relay.state is not RelayState.NAMED  # it is elsewhere by now\n            or ",
                "            ",
            ),
        ),
    ),
    Mutant(
        "Y22",
        "what finds its link full waits until something else happens",
        ("BUS-CHAN-6",),
        (
            Edit(
                _BYPASS,
                "                    self.look_at(way.shortcut.link)  # it goes on when there is room\n",
                "                    pass\n",
            ),
        ),
    ),
    Mutant(
        "Y23",
        "a body is read as if it were a frame",
        ("BUS-CHAN-7",),
        (Edit(_BYPASS, " or self._midway(short.link)", ""),),
    ),
    Mutant(
        "Y24",
        "an answer is lost whose giver was struck",
        ("QB-ERR-9",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            self.comm.do(action)\n            self._taken = None\n            return\n",
                "            self._taken = None\n            self.comm.do(action)\n            return\n",
            ),
        ),
    ),
    Mutant(
        "Y27",
        "what comes past the books overtakes what was posted before",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        if entry.place is not self or self.inbox.items:\n            return False\n        if isinstance",
                "        if entry.place is not self:\n            return False\n        if isinstance",
            ),
        ),
    ),
    Mutant(
        "Y28",
        "what comes past the books overtakes what is held back",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/exchange.py",
                "        if self.comm.holds(action.entry):\n            return False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y29",
        "what comes past the books overtakes what is to be done",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            first = not (todo or self._acting)\n",
                "            first = not todo\n",
            ),
        ),
    ),
    Mutant(
        "Y30",
        "of many answers that are entered as one the first is entered",
        ("AMO-7",),
        (
            Edit(
                "bus/core/correspondence.py",
                "for each, payload in answers],\n",
                "for each, payload in answers[:1]],\n",
            ),
        ),
    ),
    Mutant(
        "Y32",
        "who stays awake at a socket does so though it never helps",
        ("QB-SOCK-8",),
        (
            Edit(
                "vigil.py",
                "            self._caution = min(2 * self._caution, CAUTION_MAX)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y33",
        "who stays awake at a socket does so for longer than it was to wait",
        ("QB-TIME-2",),
        (
            Edit(
                "_net.py",
                "self._watched(until if deadline is None else min(until, deadline))",
                "self._watched(until)",
            ),
        ),
    ),
    Mutant(
        "Y34",
        "who may be struck does what the comm thread would",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "        if place.main:\n            self._wake()\n            return slipped, waits, other\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y35",
        "what was taken is told by nobody who waits at a link",
        ("BUS-RELAY-9",),
        (
            Edit(
                _BYPASS,
                "            bypass.tell(place)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y36",
        "a thread waits at the link though what comes is long",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "        way.wanted = False\n        self._attend()\n",
                "        self._attend()\n",
            ),
        ),
    ),
    Mutant(
        "Y37",
        "the main thread is shown a link",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "        if type(last) is not CommandRun or place.main:\n",
                "        if type(last) is not CommandRun:\n",
            ),
        ),
    ),
    Mutant(
        "Y38",
        "who stands in for the comm thread ends links",
        ("BUS-CHAN-2",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "        while self.outbox and type(self.outbox[0]) is Send:\n",
                "        while self.outbox:\n",
            ),
        ),
    ),
    Mutant(
        "Y39",
        "a fault of who stands in for the comm thread is forgotten",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "            self._fault = fault\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "Y40",
        "who reads at a link wakes nobody though it may hang",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "        return self._extractions.awaited  # if it hangs in a callback\n",
                "        return True\n",
            ),
        ),
    ),
    Mutant(
        "Y41",
        "what others have read is seen to after the end",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "        if self._left or self._fault is not None:\n",
                "        if self._fault is not None:\n",
            ),
        ),
    ),
    Mutant(
        "Y42",
        "no thread is ever shown a link",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "                    self._bypass.show(messages[-1], place)\n",
                "                    pass\n",
            ),
        ),
    ),
    Mutant(
        "Y43",
        "who gets something as it tells what was taken sleeps on it",
        ("BUS-ROUTE-4",),
        (
            Edit(
                _BYPASS,
                "            if not place.pending():\n",
                "            if not inbox.items:\n",
            ),
        ),
    ),
    Mutant(
        "Y44",
        "an answer overtakes what lies in a mailbox",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        return not self.pending() and self.inbox.idle\n",
                "        return self.inbox.idle\n",
            ),
        ),
    ),
    Mutant(
        "Y45",
        "who waits posts to itself what nobody looks at",
        ("BUS-ROUTE-4", "BUS-MSG-11"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            and not self.inbox.items\n            and not self.waiting\n",
                "            and not self.inbox.items\n",
            ),
        ),
    ),
    Mutant(
        "Y46",
        "who waits does at once what is to be done between two callbacks",
        ("BUS-ROUTE-4", "BUS-MSG-11"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            and self.running is None\n            and not self.waiting\n",
                "            and self.running is None\n",
            ),
        ),
    ),
    Mutant(
        "Y47",
        "who waits does not hear of a time that it is to look at",
        ("BUS-ROUTE-4", "BUS-MSG-11"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        if self.owned() and not self.waiting:\n",
                "        if self.owned():\n",
            ),
        ),
    ),
    Mutant(
        "Y48",
        "a thread loses its way",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "            way.wanted = True\n            place.way = way\n",
                "            way.wanted = True\n        place.way = way\n",
            ),
        ),
    ),
    Mutant(
        "Y49",
        "who has begun to read a long frame leaves the rest of it to another thread",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "                        and 0 < lead.lacks < lacked\n",
                "                        and lead.lacks < 0 < lacked\n",
            ),
        ),
    ),
    Mutant(
        "Y50",
        "who is woken for something else waits for the rest of a long frame",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "                        and 0 < lead.lacks < lacked\n",
                "                        and 0 < lead.lacks <= lacked\n",
            ),
        ),
    ),
    Mutant(
        "Y51",
        "who reads a long frame does nothing else until it is whole",
        ("BUS-CHAN-7",),
        (
            Edit(
                _BYPASS,
                "not (place.main or place.pending() or _passed(deadline))",
                "not place.main",
            ),
        ),
    ),
    Mutant(
        "Y52",
        "who is struck as it leaves a link ends that",
        ("QB-ERR-9",),
        (
            Edit(
                _BYPASS,
                "                    reading = False\n                    place.leave_way()\n",
                "                    place.leave_way()\n                    reading = False\n",
            ),
        ),
    ),
    Mutant(
        "Y53",
        "what a long message leaves behind goes back to the system",
        ("QB-SOCK-8",),
        (
            Edit(
                "sockets/memory.py",
                "    bytes(KEPT_BYTES)\n",
                "    bytes()\n",
            ),
        ),
    ),
    Mutant(
        "Y4",
        "what came by a shortcut does not count when the next one comes",
        ("AMO-7",),
        (
            Edit(
                "bus/core/shortcut.py",
                "        ends.stream.next = batch.first + 1\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y5",
        "that a message came by a shortcut is never acknowledged",
        ("AMO-7",),
        (
            Edit(
                "bus/core/shortcut.py",
                "        self.peer.session.received(Acknowledgement(batch.first + 1))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y6",
        "a message says that all was taken that has come",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/session.py",
                "self.extracted.get(task, 0), whole",
                "has.next - 1, whole",
            ),
        ),
    ),
    Mutant(
        "Y17",
        "a decision leaves valid what was looked up before it",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            self.manager.revision += 1\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y18",
        "a thread that may be struck enters what its task has taken",
        ("QB-ERR-9",),
        (
            Edit(
                _BYPASS,
                "        if place is not None and not place.main:\n            taken",
                "        if place is not None:\n            taken",
            ),
        ),
    ),
    Mutant(
        "Y19",
        "a thread that may be struck takes commands of others",
        ("QB-ERR-9",),
        (Edit("bus/core/shortcut.py", "answers_only or run.kind", "run.kind"),),
    ),
    Mutant(
        "Y25",
        "that a question may go at once is remembered though all is decided anew",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/core/shortcut.py",
                "            or leave.revision != self._remote.manager.revision\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y26",
        "whom a message is for is remembered though all is decided anew",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/core/shortcut.py",
                "            or ends.revision != self._remote.manager.revision\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y31",
        "an answer acknowledges all that is under way",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/shortcut.py",
                "            last + len(parcel.bodies) == batch.extracted + 1 and not",
                "            not",
            ),
        ),
    ),
    Mutant(
        "Y54",
        "an answer that makes room lets nobody go on",
        ("BUS-RELAY-11",),
        (Edit("bus/core/shortcut.py", " and not self.peer.waiting", ""),),
    ),
    Mutant(
        "Y55",
        "a part of what was sent is acknowledged as all of it",
        ("AMO-23",),
        (
            Edit(
                "bus/core/shortcut.py",
                "(stop != outgoing.next or self.peer.waiting)",
                "self.peer.waiting",
            ),
        ),
    ),
    Mutant(
        "Y56",
        "a question that goes at once is not under way",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        self.under_way += 1\n        self.unacked_bytes += size\n        self._unanswered",
                "        self.unacked_bytes += size\n        self._unanswered",
            ),
        ),
    ),
    Mutant(
        "Y57",
        "a question that goes at once awaits no answer",
        ("BUS-RELAY-9",),
        (Edit("bus/core/relay.py", "        self._unanswered |= asks\n", ""),),
    ),
    Mutant(
        "Y58",
        "a question that goes at once is not posted to its process",
        ("BUS-FLOW-7",),
        (Edit("bus/core/relay.py", "        whole.posted += 1\n", ""),),
    ),
    Mutant(
        "Y59",
        "a question that goes at once is posted nowhere",
        ("BUS-FLOW-7",),
        (Edit("bus/core/relay.py", "        own.posted += 1\n", ""),),
    ),
    Mutant(
        "Y60",
        "a question that goes at once is in two parts for an interrupt",
        ("QB-ERR-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        self.unacked += unacked\n",
                "        self.unacked.extend(unacked)\n",
            ),
        ),
    ),
    Mutant(
        "Y61",
        "a question that was taken is not asked",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        self.asked |= asked\n        own.taken",
                "        own.taken",
            ),
        ),
    ),
    Mutant(
        "Y62",
        "what an answer acknowledges is in two parts for an interrupt",
        ("QB-ERR-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        self.unacked = rest\n",
                "        self.unacked.clear()\n",
            ),
        ),
    ),
    Mutant(
        "Y63",
        "commands that an answer acknowledges are not counted as such",
        ("BUS-RELAY-9",),
        (Edit("bus/core/relay.py", "        own.commands_taken += commands\n", ""),),
    ),
    Mutant(
        "Y64",
        "what a message acknowledges is acknowledged once more",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/session.py",
                "        self._ack_at = None\n        self._ack_now = False\n        self._exchanges = True",
                "        self._exchanges = True",
            ),
        ),
    ),
    Mutant(
        "Y65",
        "in an exchange the comm thread looks for each acknowledgement",
        ("BUS-RELAY-9",),
        (Edit("bus/core/session.py", "        self._exchanges = True\n", ""),),
    ),
    Mutant(
        "Y66",
        "after an exchange the last message is never acknowledged",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/session.py",
                "        self._exchanges = False\n        return now",
                "        return now",
            ),
        ),
    ),
    Mutant(
        "Y67",
        "an answer is entered as received before it is given",
        ("QB-ERR-9",),
        (
            Edit(
                "bus/core/shortcut.py",
                "        self._acknowledged(batch, ends.relay)\n        # An",
                "        self._acknowledged(batch, ends.relay)\n        ends.stream.next = batch.first + 1\n        # An",
            ),
        ),
    ),
    Mutant(
        "Y68",
        "a message acknowledges what is missing",
        ("AMO-23",),
        (
            Edit(
                "bus/core/session.py",
                "        if has.missing:\n            return 0, 0, False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y69",
        "a message counts as if it acknowledged control frames",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/session.py",
                "self.heard == self._acked_heard and self._taken",
                "self._taken",
            ),
        ),
    ),
    Mutant(
        "Y70",
        "a message counts as if it acknowledged for all tasks",
        ("BUS-RELAY-9",),
        (Edit("bus/core/session.py", " and self._taken.keys() <= {task}", ""),),
    ),
    Mutant(
        "Y71",
        "what a frame of messages acknowledges is not read in a round",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "                self.correspondence.acknowledged_by(peer, frame)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y72",
        "a process that leaves acknowledges as late as any other",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "            self._exchange.decide(lambda: self.remote.acknowledge(_sync.monotonic()))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y73",
        "an answer that frees numbers lets nobody go on",
        ("BUS-RELAY-11",),
        (
            Edit(
                "bus/core/shortcut.py",
                "(stop != outgoing.next or self.peer.waiting)",
                "stop != outgoing.next",
            ),
        ),
    ),
    Mutant(
        "Y74",
        "after an answer that goes another way the next message is taken for one that is waited for",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/api/receiver.py",
                "                place.waits_next = False  # the next callback may come before it waits\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "Y75",
        "a thread reads the link after it has sent",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/bypass.py",
                "                    if place.waits_next and way.early:\n                        way.lead(place)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y76",
        "a thread that serves no more goes on reading the link",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            try:\n                return self._serve(until)\n            finally:\n                self.leave_way()\n",
                "            return self._serve(until)\n",
            ),
        ),
    ),
    Mutant(
        "Y77",
        "a thread that has something to do goes on reading the link",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            self.leave_way()\n            items = self.inbox.take_now()\n",
                "            items = self.inbox.take_now()\n",
            ),
        ),
    ),
    Mutant(
        "Y78",
        "what a thread that may be struck leaves to do waits for the comm thread",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/bypass.py",
                "                self._rounds.nudge()\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "Y79",
        "to leave a link twice takes it from another thread",
        ("QB-ERR-9",),
        (
            Edit(
                "sockets/lead.py",
                "        if self._owner is not elsewhere:\n            return\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y80",
        "what a frame leaves unacknowledged is acknowledged when something happens",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/links/bypass.py",
                "                self._soon()  # the comm thread may have gone to sleep before that\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "Y81",
        "no command that wants no answer is put on a link at once",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/bypass.py",
                "        return now - last >= _ALONE_S\n",
                "        return False\n",
            ),
        ),
    ),
    Mutant(
        "Y82",
        "each of many commands is put on a link at once",
        ("BUS-CHAN-7",),
        (
            Edit(
                "bus/links/bypass.py",
                "        return now - last >= _ALONE_S\n",
                "        return True\n",
            ),
        ),
    ),
    Mutant(
        "Y83",
        "a command goes past those that lie in the inbox",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/links/burst.py",
                "        if not (self.posted or self.payloads) and self._goes_alone(payload):\n",
                "        if self._goes_alone(payload):\n",
            ),
        ),
    ),
    Mutant(
        "Y84",
        "a command that goes at once awaits an answer that it does not want",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        if parcel.message is not None and parcel.message.wants_reply:\n            asks.add",
                "        if parcel.message is not None:\n            asks.add",
            ),
        ),
    ),
    Mutant(
        "Y85",
        "an answer that acknowledges several counts as if it acknowledged one",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/core/relay.py",
                "        keys, taken = set(asked), self.under_way\n",
                "        keys, taken = set(asked), 1\n",
            ),
        ),
    ),
    Mutant(
        "Y86",
        "of several that an answer acknowledges one counts as a command",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/core/relay.py",
                "            if parcel.is_command:\n                commands += len(parcel.bodies)\n            key",
                "            if parcel.is_command:\n                commands = len(parcel.bodies)\n            key",
            ),
        ),
    ),
    Mutant(
        "Y87",
        "a thread waits for the task of an interrupted registration",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            self._expected.remove(box)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "Y88",
        "a task whose registration is interrupted is never opened",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            if not box.client.postponed(opens_there):\n                opens_there()\n            raise\n",
                "            raise\n",
            ),
        ),
    ),
)
