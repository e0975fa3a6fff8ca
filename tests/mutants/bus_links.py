"""Mutants of links, of the thread that serves them, and of what leaves by it (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_LINKS"]

BUS_LINKS: tuple[Mutant, ...] = (
    Mutant(
        "L1",
        "the comm thread looks at what was noted before others see that it sleeps",
        ("BUS-ROUTE-4",),
        (
            Edit(
                "bus/links/sleep.py",
                "        selection = Selection(queues)\n",
                "        noted = look()\n        selection = Selection(queues)\n",
            ),
            Edit(
                "bus/links/sleep.py",
                "            if not look():\n                _sync.park",
                "            if not noted:\n                _sync.park",
            ),
        ),
    ),
    Mutant(
        "L2",
        "who wakes the comm thread looks whether it sleeps, and then notes what for",
        ("BUS-ROUTE-4",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "        else:\n            self._nudged = True\n            self._wake()\n",
                "        else:\n            self._wake()\n            self._nudged = True\n",
            ),
        ),
    ),
    Mutant(
        "L3",
        "a link is lost before what came by it is read",
        ("BUS-CHAN-5",),
        (
            Edit(
                "bus/links/lines.py",
                "                continue  # hung up since\n",
                "                continue\n            if queue.remote_disconnected and number not in self._closing:\n                came.append((number, None))\n                self._let_go(number)\n                continue\n",
            ),
        ),
    ),
    Mutant(
        "L4",
        "a hang-up overtakes what waits for room",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/links/lines.py",
                "        if number in self._unsent:\n            self._closing[number] = _sync.monotonic() + self._timeout_s\n        else:\n            self._let_go(number)\n",
                "        self._let_go(number)\n",
            ),
        ),
    ),
    Mutant(
        "L5",
        "what finds room in a link overtakes what waits for it",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/links/lines.py",
                "        waiting = self._unsent.get(number)\n        if waiting is None:\n",
                "        waiting = self._unsent.get(number)\n        if waiting is None or not queue.remote_disconnected:\n",
            ),
            Edit(
                "bus/links/lines.py",
                "                self._unsent[number] = Unsent(frame, _sync.monotonic())\n",
                "                if waiting is None:\n                    self._unsent[number] = Unsent(frame, _sync.monotonic())\n                else:\n                    waiting.append(frame)\n",
            ),
        ),
    ),
    Mutant(
        "L6",
        "a link that is still full keeps others waiting that have room",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/links/lines.py",
                "            if done:\n                self._unsent.pop(number, None)\n",
                "            if not done:\n                break\n            self._unsent.pop(number, None)\n",
            ),
        ),
    ),
    Mutant(
        "L7",
        "who serves links waits for one that is being made",
        ("BUS-CHAN-3",),
        (
            Edit(
                "bus/links/lines.py",
                '            self._help(f"{broker.name} connects", connect)\n',
                "            connect()\n",
            ),
        ),
    ),
    Mutant(
        "L8",
        "a lone message waits until the last one is acknowledged",
        ("BUS-CHAN-6",),
        (
            Edit(
                "bus/core/relay.py",
                "        if not self.opened:\n            return\n",
                "        if not self.opened or (self.unacked and len(self.queue) == 1):\n            return\n",
            ),
        ),
    ),
    Mutant(
        "L9",
        "what finds room overtakes what is held back for its task",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/links/arrivals.py",
                "            if held is not None:\n                self._hold(held, message)\n            elif not _offer(entry, message):\n                held = _Held()\n",
                "            if not _offer(entry, message):\n                held = held or _Held()\n",
            ),
        ),
    ),
    Mutant(
        "L10",
        "who reads while something is being held back does not get it",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/links/arrivals.py",
                "        if held is not None:\n            # Who has read meanwhile did not know that somebody waits for that.\n            self.resume(entry)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L11",
        "a task has left before what it has taken is said",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            self.comm.decide(left)\n",
                "            self.decide(left)\n",
            ),
        ),
    ),
    Mutant(
        "L12",
        "what was posted to a relay that is given up goes before what that had",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "*messages, *self._host.strays(entry)]",
                "*self._host.strays(entry), *messages]",
            ),
        ),
    ),
    Mutant(
        "L13",
        "what waits in a relay is not counted, only what is on its way there",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/stand_in.py",
                "        self._left = self._moved - relay.queued\n",
                "        self._left = self._moved\n",
            ),
        ),
    ),
    Mutant(
        "L14",
        "a relay is looked at once, however much still waits in it",
        ("BUS-FLOW-2",),
        (
            Edit(
                "bus/links/relay_host.py",
                "            if not relay.queue:\n                self._busy.discard(relay)\n",
                "            self._busy.discard(relay)\n",
            ),
        ),
    ),
    Mutant(
        "L15",
        "a relay refuses where its task drops the oldest",
        ("BUS-FLOW-6",),
        (
            Edit(
                "bus/links/stand_in.py",
                "            if self._coming is None:\n                return Admission.FULL\n            while",
                "            if self._coming is None or self._coming:\n                return Admission.FULL\n            while",
            ),
        ),
    ),
    Mutant(
        "L16",
        "a relay refuses where its task drops the newest",
        ("BUS-FLOW-6",),
        (
            Edit(
                "bus/links/stand_in.py",
                '            if self.overflow == "drop-newest":\n                return Admission.DROPPED\n',
                "",
            ),
        ),
    ),
    Mutant(
        "L17",
        "a window has no bytes",
        ("BUS-RELAY-11",),
        (
            Edit(
                "bus/core/relay.py",
                "            if bytes_left <= 0 and (run or self.unacked):\n                break\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L18",
        "who watches is told only of those whom its process knows",
        ("BUS-DEREG-2", "BUS-INIT-8"),
        (
            Edit(
                "bus/core/process_manager.py",
                "        if self.remote is not None:\n            self.remote.watched(watch)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L19",
        "who watches is told who comes, and not who goes",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/far_tasks.py",
                "            if action.watch not in untold\n        ]\n\n    def lost(",
                "            if False\n        ]\n\n    def lost(",
            ),
        ),
    ),
    Mutant(
        "L20",
        "a bell that was rung for nothing is not heard again",
        ("BUS-ROUTE-4",),
        (
            Edit(
                "bus/links/sleep.py",
                "        while rest_s != 0:\n",
                "        bell.rung = False\n        while rest_s != 0:\n",
            ),
            Edit(
                "bus/links/sleep.py",
                "                bell.rung = False\n                arrived",
                "                arrived",
            ),
        ),
    ),
    Mutant(
        "N98",
        "of what is left when much came together nobody is told",
        ("BUS-CHAN-5",),
        (
            Edit(
                "sockets/connection.py",
                "        self._give_credit_locked()\n        if inbox._messages and inbox.arrived:\n            inbox.arrived.wake_one()\n        if self.readiness[self.side] is not None:\n            self.refresh_locked(self.side)\n        return [",
                "        self._give_credit_locked()\n        if self.readiness[self.side] is not None:\n            self.refresh_locked(self.side)\n        return [",
            ),
        ),
    ),
    Mutant(
        "N99",
        "that a link is lost behind its last frames is told to nobody",
        ("BUS-CHAN-5",),
        (
            Edit(
                "bus/links/lines.py",
                "            if queue.remote_disconnected:\n                self._sleep.again(number)\n            if number",
                "            if number",
            ),
        ),
    ),
    Mutant(
        "L102",
        "how many warnings were left out is said again in each later minute",
        ("BUS-SEC-10",),
        (
            Edit(
                "bus/links/complaints.py",
                "self._since, self._told, self._left_out = now, 0, 0",
                "self._since, self._told = now, 0",
            ),
        ),
    ),
    Mutant(
        "L101",
        "a link of which only the loss is known yet is not looked at again",
        ("BUS-CHAN-5",),
        (
            Edit(
                "bus/links/lines.py",
                "                if queue.remote_disconnected:\n                    self._sleep.again(number)  # something is on its way yet\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L21",
        "who dials does not look at who listens",
        ("BUS-SEC-2",),
        (
            Edit(
                "bus/links/socket_network.py",
                "        why = self._admit(queue.peer)\n",
                "        why = None\n",
            ),
        ),
    ),
    Mutant(
        "L22",
        "a child of a fork holds the lock of its parent",
        ("OPEN-1",),
        (
            Edit(
                "bus/links/run_directory.py",
                "    for directory in list(_directories):\n        directory.forsake()\n",
                "    return\n",
            ),
        ),
    ),
    Mutant(
        "L23",
        "nobody takes the place of a master that has gone",
        ("OPEN-1",),
        (
            Edit(
                "bus/links/socket_network.py",
                "        if self._role is not Role.AUTO or not self.directory.claim():\n",
                "        if self._role is not Role.MASTER:\n",
            ),
        ),
    ),
    Mutant(
        "L24",
        "a run directory that others may write to is taken",
        ("BUS-SEC-3",),
        (
            Edit(
                "bus/links/run_directory.py",
                "_FORBIDDEN: Final = 0o077\n",
                "_FORBIDDEN: Final = 0o057\n",
            ),
        ),
    ),
    Mutant(
        "L25",
        "what a task took is told again and again, long after it has left",
        ("BUS-ENT-17",),
        (
            Edit(
                "bus/core/peer.py",
                "        self.session.forget(frame.relay)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L26",
        "frames wait for a link without any bound",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/links/lines.py",
                "        if len(waiting.frames) > frames_max or waiting.size > bytes_max:\n",
                "        if len(waiting.frames) > 10 * frames_max:\n",
            ),
        ),
    ),
    Mutant(
        "L27",
        "who acknowledges nothing keeps its link",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "peer.session.ready and peer.session.backlog > most:",
                "peer.session.backlog > 10 * most:",
            ),
        ),
    ),
    Mutant(
        "L28",
        "who does not greet has as long as who dials",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/core/links.py",
                "        wait = limits.auth_timeout_s if silent else limits.connect_timeout_s\n        return link.since + wait\n",
                "        return link.since + limits.connect_timeout_s\n",
            ),
        ),
    ),
    Mutant(
        "L29",
        "links of those who do not greet are not counted",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/core/links.py",
                "        if len(silent) > self._neighbours.limits.unauthenticated_links:\n",
                "        if not silent:\n",
            ),
        ),
    ),
    Mutant(
        "L30",
        "of those who do not greet, the newest link goes",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/core/links.py",
                "            self.hang_up(silent[0])\n",
                "            self.hang_up(silent[-1])\n",
            ),
        ),
    ),
    Mutant(
        "L31",
        "a frame before the greeting may be as long as any other",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/links/socket_network.py",
                "                unanswered_bytes_max=config.unauthenticated_bytes,\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L32",
        "a process has as many names as it likes",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/directory.py",
                "        if more and self.users.count(peer.key) >= most:\n",
                "        if more and self.users.count(peer.key) > 2 * most:\n",
            ),
        ),
    ),
    Mutant(
        "L33",
        "a process has as many relays as it likes",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/relays.py",
                "            if len(peer.relays) >= (most := limits.relays_per_process):\n",
                "            if len(peer.relays) >= 2 * (most := limits.relays_per_process):\n",
            ),
        ),
    ),
    Mutant(
        "L34",
        "a process subscribes to as much as it likes",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/listening.py",
                "            if full and asker == peer.key:\n",
                "            if self.ledger.count(asker) > 2 * most:\n",
            ),
        ),
    ),
    Mutant(
        "L35",
        "nobody is told why a link was closed",
        ("BUS-SEC-10",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                '        self.neighbours.complain(f"the link with {link.who} is closed: {error}")\n',
                "",
            ),
        ),
    ),
    Mutant(
        "L36",
        "the log is filled by whoever misbehaves often enough",
        ("BUS-SEC-10",),
        (
            Edit(
                "bus/links/complaints.py",
                "            if self._told >= _LINES_MAX:\n",
                "            if self._told >= 100 * _LINES_MAX:\n",
            ),
        ),
    ),
    Mutant(
        "L46",
        "who is asked for a sign of life is asked again and again at once",
        ("OPEN-2",),
        (
            Edit(
                "bus/core/keep_alive.py",
                "                peer.asked_at = now\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L47",
        "a process of this machine that stands still loses its link",
        ("OPEN-2",),
        (
            Edit(
                "bus/core/keep_alive.py",
                "        if peer.machine == self._neighbours.me.machine:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "L48",
        "who was silent for too long once does not respond for ever",
        ("OPEN-2",),
        (
            Edit(
                "bus/core/keep_alive.py",
                "            peer.unresponsive = False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L49",
        "commands that came together overtake what is held back",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/links/arrivals.py",
                "        if held is None and _give_run(entry, run):\n",
                "        if _give_run(entry, run):\n",
            ),
        ),
    ),
    Mutant(
        "L50",
        "of commands that came together none is given unless all fit by their length",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "            count = some.fitting(room)\n",
                "            count = 0\n",
            ),
        ),
    ),
    Mutant(
        "L51",
        "what is held back is not given when there is room",
        ("BUS-FLOW-2",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "        if self._arrivals.holds(entry) and account.roomy:\n",
                "        if self._arrivals.holds(entry) and not account:\n",
            ),
        ),
    ),
    Mutant(
        "L52",
        "what is held back is given one by one",
        ("BUS-FLOW-2",),
        (
            Edit(
                "bus/threads/account.py",
                "            2 * self.unread <= self._messages_max\n",
                "            self.unread <= self._messages_max\n",
            ),
        ),
    ),
    Mutant(
        "L53",
        "a link that broke the rules of links is taken for one that was lost",
        ("BUS-SEC-10",),
        (
            Edit(
                "bus/links/frame_readers.py",
                "            if isinstance(cause, ProtocolError):\n",
                "            if cause is ...:\n",
            ),
        ),
    ),
    Mutant(
        "L54",
        "who was answered once may say no more than before",
        ("QB-SOCK-9",),
        (
            Edit(
                "queuebroker/sockets/protocol.py",
                "        self._unanswered = False\n        self._number = number\n",
                "        self._number = number\n",
            ),
        ),
    ),
    Mutant(
        "L55",
        "a run of messages may be long before an answer",
        ("QB-SOCK-9",),
        (
            Edit(
                "queuebroker/sockets/protocol.py",
                "            most = longest if self._unanswered else max(longest, RUN_BYTES_MAX)\n",
                "            most = max(longest, RUN_BYTES_MAX)\n",
            ),
        ),
    ),
    Mutant(
        "L60",
        "a link that was left stays for as long as its peer likes",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/links/socket_network.py",
                "                farewell_s=_FAREWELL_S,\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L61",
        "who writes to one that is gone loses what had come of it",
        ("QB-SOCK-4",),
        (
            Edit(
                "queuebroker/sockets/link.py",
                "            self.torn = False\n            self._read_out_soon_locked(error)\n",
                "            self.torn = False\n            self.lose_locked(error)\n",
            ),
        ),
    ),
    Mutant(
        "L62",
        "a message is lost that came together with a frame that is too long",
        ("QB-SOCK-4",),
        (
            Edit(
                "queuebroker/sockets/protocol.py",
                "                self._hear_run(run)  # what came before it is received all the same\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L63",
        "who reads nothing keeps a connection that was left",
        ("QB-SOCK-9",),
        (
            Edit(
                "queuebroker/sockets/link.py",
                "            self._leave_in_time_locked(self._farewell_s)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "L64",
        "who waits for a message needs a descriptor for that",
        ("QB-SOCK-8",),
        (
            Edit(
                "queuebroker/sockets/turn.py",
                "            except OSError:\n                return False  # no descriptor",
                "            except ZeroDivisionError:\n                return False  # no descriptor",
            ),
        ),
    ),
    Mutant(
        "L65",
        "who broke a rule and reads nothing keeps the connection",
        ("QB-SOCK-9",),
        (
            Edit(
                "queuebroker/sockets/link.py",
                "        elif protocol.ended:\n            self._leave_in_time_locked(self._farewell_s or LAST_S)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L66",
        "who asks a bus for something else than a link waits for ever",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/links/socket_network.py",
                "                ports={PORT},\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L67",
        "another process sends this one to any machine",
        ("BUS-SEC-9",),
        (
            Edit(
                "bus/links/lines.py",
                "                if _is_elsewhere(address):\n",
                "                if False:\n",
            ),
        ),
    ),
    Mutant(
        "L68",
        "who reads the log waits for links that are held meanwhile",
        ("BUS-SEC-10",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "                self._complaints.tell(_sync.monotonic())\n",
                "                with self._bypass.hold:\n                    self._complaints.tell(_sync.monotonic())\n",
            ),
        ),
    ),
    Mutant(
        "L56",
        "the text of an error goes over a link as it was given",
        ("BUS-MSG-13",),
        (
            Edit(
                "bus/api/receiver.py",
                "            error = fitting(error, limit)\n",
                "            pass\n",
            ),
            Edit(
                "bus/core/parcel.py",
                "    return FAILED, encode(fitting(error, message_bytes_max))\n",
                "    return FAILED, encode(error)\n",
            ),
        ),
    ),
    Mutant(
        "L57",
        "a frame that a link never takes ends the thread that serves all links",
        ("BUS-CHAN-6",),
        (
            Edit(
                "bus/links/lines.py",
                "                done = waiting.send(self._queues[number], now)\n            except MessageTooLargeError:\n",
                "                done = waiting.send(self._queues[number], now)\n            except ZeroDivisionError:\n",
            ),
            Edit(
                "bus/links/lines.py",
                "            except MessageTooLargeError:\n                self._end(",
                "            except ZeroDivisionError:\n                self._end(",
            ),
        ),
    ),
    Mutant(
        "L58",
        "a link that takes next to nothing is used all the same",
        ("BUS-CHAN-6",),
        (
            Edit(
                "bus/links/lines.py",
                "    if limit is None or limit >= FRAME_BYTES_MAX:\n",
                "    if limit is None or limit >= 0:\n",
            ),
        ),
    ),
    Mutant(
        "L59",
        "what was sent before a hang-up waits for room for ever",
        ("BUS-CHAN-8",),
        (
            Edit(
                "bus/links/lines.py",
                "(done or self._closing[number] <= now)",
                "done",
            ),
        ),
    ),
    Mutant(
        "L69",
        "few long messages wait for their acknowledgement, as short ones do",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/links/extractions.py",
                "        if not (self.awaited or watched) or self._bytes >= self._bytes_max:\n",
                "        if not (self.awaited or watched):\n",
            ),
        ),
    ),
    Mutant(
        "L70",
        "only the first reads of a run that is read on are reported",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/links/extractions.py",
                "                self._read_on.append(run)\n",
                "                pass\n",
            ),
        ),
    ),
)
