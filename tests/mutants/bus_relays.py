"""Mutants of searches, relays, departures and losses between processes (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_RELAYS"]

BUS_RELAYS: tuple[Mutant, ...] = (
    Mutant(
        "N1",
        "a relay answers a search",
        ("BUS-ROUTE-10", "BUS-INIT-14"),
        (
            Edit(
                "bus/core/finder.py",
                "            if task is not None and not task.remote:\n",
                "            if task is not None:\n",
            ),
        ),
    ),
    Mutant(
        "N2",
        "late news of a departure take the newer registration along",
        ("BUS-DEREG-7",),
        (
            Edit(
                "bus/core/user_table.py",
                "        if present is None or present.id != number:\n",
                "        if present is None:\n",
            ),
        ),
    ),
    Mutant(
        "N3",
        "what was under way is put behind what was waiting",
        ("BUS-DEREG-4", "BUS-MOVE-4"),
        (
            Edit(
                "bus/core/correspondence.py",
                "[*relay.take_unacked(), *relay.take_unsent()]",
                "[*relay.take_unsent(), *relay.take_unacked()]",
            ),
        ),
    ),
    Mutant(
        "N4",
        "a message is acknowledged when it comes, not when it is taken",
        ("BUS-RELAY-9", "BUS-RELAY-11"),
        (
            Edit(
                "bus/core/arriving.py",
                "        self._expect(number, len(bodies))\n",
                "        self._expect(number, len(bodies))\n        self._receipt.peer.took(self._receipt.relay, number, now, count=len(bodies))\n",
            ),
        ),
    ),
    Mutant(
        "N5",
        "one more than the window is under way",
        ("BUS-RELAY-11",),
        (
            Edit(
                "bus/core/relay.py",
                "self.limits.window - self.under_way)",
                "self.limits.window + 1 - self.under_way)",
            ),
        ),
    ),
    Mutant(
        "N6",
        "a search goes back to where it came from",
        ("BUS-ROUTE-13",),
        (
            Edit(
                "bus/core/neighbours.py",
                "            slaves = [each for each in self.slaves() if each is not origin]\n",
                "            slaves = self.slaves()\n",
            ),
            Edit(
                "bus/core/requests.py",
                "            if way.key not in request.went and way is not request.origin:\n",
                "            if way.key not in request.went:\n",
            ),
        ),
    ),
    Mutant(
        "N7",
        "what is in doubt is sent again",
        ("BUS-MOVE-8",),
        (
            Edit(
                "bus/core/correspondence.py",
                "            self._fail(doubtful, InDoubtError(name))\n",
                "",
            ),
            Edit(
                "bus/core/correspondence.py",
                "            relay.asked.clear()\n            self._relays.release(relay, relay.take_unsent(), final=False)\n",
                "            relay.asked.clear()\n            self._books.in_doubt -= len(doubtful)\n            self._relays.release(relay, [*doubtful, *relay.take_unsent()], final=False)\n",
            ),
        ),
    ),
    Mutant(
        "N8",
        "the relay of a private task is found by its name",
        ("BUS-RELAY-5",),
        (
            Edit(
                "bus/core/relays.py",
                "                visibility=task.visibility,\n",
                "                visibility=Visibility.PUBLIC,\n",
            ),
            Edit(
                "bus/core/relays.py",
                "        if not (private or task.closed):\n            self._name(relay)\n",
                "        self._name(relay)\n",
            ),
        ),
    ),
    Mutant(
        "N9",
        "what a task took when it left is not listened to",
        ("BUS-DEREG-4", "BUS-DEREG-3", "BUS-RELAY-4"),
        (
            Edit(
                "bus/core/tidings.py",
                "                self._correspondence.unrelay(peer, frame)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "N10",
        "a search that is over is not taken back",
        ("BUS-ROUTE-19", "BUS-DEREG-11", "AMO-26"),
        (
            Edit(
                "bus/core/requests.py",
                "        for way in request.went.values():\n            if way is not answered_by:\n",
                "        for way in request.went.values():\n            if False:\n",
            ),
        ),
    ),
    Mutant(
        "N11",
        "what managers said on a link that was lost is not said again",
        ("BUS-RELAY-10", "BUS-FLOW-7"),
        (
            Edit(
                "bus/core/session.py",
                "        controls = deque(self._controls)\n",
                "        controls = deque(list(self._controls)[:0])\n",
            ),
        ),
    ),
    Mutant(
        "N12",
        "messages of a lost link are not sent again",
        ("BUS-RELAY-10", "BUS-MOVE-8"),
        (
            Edit(
                "bus/core/session.py",
                "                self._outbox.append(part)\n        self._outbox +=",
                "        self._outbox +=",
            ),
        ),
    ),
    Mutant(
        "N13",
        "the later one of two registrations has the name",
        ("BUS-MOVE-7",),
        (
            Edit(
                "bus/core/user_table.py",
                "        return mine < (",
                "        return mine > (",
            ),
        ),
    ),
    Mutant(
        "N14",
        "a process that joins later is not asked",
        ("BUS-ROUTE-18",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "            self.finder.joined(peer)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N15",
        "two who search for one another wait for one another to dial",
        ("BUS-ROUTE-11",),
        (
            Edit(
                "bus/core/finder.py",
                "        if not entry.remote:\n            return True\n        peer: Peer",
                "        if entry.name:\n            return True\n        peer: Peer",
            ),
        ),
    ),
    Mutant(
        "N16",
        "two who leave while they write to one another wait for one another",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/core/peer.py",
                "            self.session.tell(replace(frame, more=True))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N17",
        "a link for messages is never closed",
        ("BUS-DEREG-5", "BUS-MOVE-6"),
        (
            Edit(
                "bus/core/parting.py",
                "        return not self._listening.hears(peer)\n",
                "        return False\n",
            ),
        ),
    ),
    Mutant(
        "N18",
        "each searches with every message",
        ("BUS-ROUTE-7",),
        (
            Edit(
                "bus/core/finder.py",
                "        if name in self.own or self._manager.table.find(name) is not None:\n",
                "        if self._manager.table.find(name) is not None:\n",
            ),
        ),
    ),
    Mutant(
        "N19",
        "of two links at once each side keeps the one that it dialled",
        ("BUS-ROUTE-11",),
        (
            Edit(
                "bus/core/link.py",
                "            return self.dialled is ours\n",
                "            return self.dialled\n",
            ),
        ),
    ),
    Mutant(
        "N20",
        "a subscription is not said to who joins later",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "            self.listening.joined(peer)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N21",
        "a slave may speak for the tasks of another one",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/tidings.py",
                "        if peer.key != owner:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "N22",
        "who is told of an answer is told that the process was lost, too",
        ("BUS-DEREG-9",),
        (
            Edit(
                "bus/core/relay.py",
                "        if self.asked.pop(key, None) is None:\n            self._unanswered.discard(key)\n",
                "        self.asked.pop(key, None)\n",
            ),
        ),
    ),
    Mutant(
        "N23",
        "a notification crosses a link for each specification that means its sender",
        ("BUS-RELAY-7", "AMO-25"),
        (
            Edit(
                "bus/core/listening.py",
                "                found[request.asker] = peer\n",
                "                found[asker, request.name] = peer\n",
            ),
        ),
    ),
    Mutant(
        "N24",
        "a master keeps a relay of what it passes on",
        ("BUS-ROUTE-9", "BUS-RELAY-1"),
        (
            Edit(
                "bus/core/finder.py",
                "            origin.session.tell(frame)\n            self.ledger.end(request, answered_by=peer)\n",
                "            origin.session.tell(frame)\n            self._relays.found(peer, frame, None, now)\n            self.ledger.end(request, answered_by=peer)\n",
            ),
        ),
    ),
    Mutant(
        "N25",
        "who is told of a task again makes another relay of it",
        ("BUS-RELAY-3",),
        (
            Edit(
                "bus/core/relays.py",
                "        relay = peer.relays.get(task.relay)\n",
                "        relay = None\n",
            ),
        ),
    ),
    Mutant(
        "N26",
        "who did not search is not announced",
        ("BUS-RELAY-12",),
        (
            Edit(
                "bus/core/peer.py",
                "        if relay not in self.announced:\n",
                "        if relay < 0:\n",
            ),
        ),
    ),
    Mutant(
        "N27",
        "who answers a search makes no relay of who asked",
        ("BUS-ROUTE-6", "BUS-ROUTE-12"),
        (
            Edit(
                "bus/core/relays.py",
                "        relay = self.add_relay(peer, task, now, hearsay=way is not peer)\n        if relay is None:\n            return False\n        relay.promise()  # who searches counts on it by the answer\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N28",
        "a master searches for others only",
        ("BUS-ROUTE-8",),
        (
            Edit(
                "bus/core/neighbours.py",
                "            return known or slaves\n",
                "            return (known or slaves) if origin else []\n",
            ),
        ),
    ),
    Mutant(
        "N29",
        "a name of another machine is searched for on this one",
        ("BUS-ROUTE-14", "BUS-ROUTE-15", "BUS-ROUTE-17", "BUS-NAME-4"),
        (
            Edit(
                "bus/core/finder.py",
                "        machine = address.machine or self._neighbours.me.machine\n",
                "        machine = self._neighbours.me.machine\n",
            ),
        ),
    ),
    Mutant(
        "N30",
        "masters tell one another what they heard from one another",
        ("BUS-DEREG-6",),
        (
            Edit(
                "bus/core/neighbours.py",
                "        abroad = origin is not None and origin.machine != self.me.machine\n",
                "        abroad = False\n",
            ),
        ),
    ),
    Mutant(
        "N31",
        "nobody passes on that a task is gone",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/directory.py",
                "        self._eliminate(frame, origin)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N32",
        "who comes after somebody subscribed is not heard",
        ("AMO-27", "BUS-RELAY-8"),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "        self.listening.registered(task, now)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N50",
        "what several tasks have sent is packed as if one had",
        ("BUS-MSG-1", "BUS-CHAN-6"),
        (
            Edit(
                "bus/core/relay.py",
                "            and all(each.relay == number for each in queue)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N51",
        "what is posted together counts as one sender's",
        ("BUS-MSG-1", "BUS-CHAN-6"),
        (
            Edit(
                "bus/core/correspondence.py",
                "            while stop < end and messages[stop]._source is source:\n",
                "            while stop < end:\n",
            ),
        ),
    ),
    Mutant(
        "N52",
        "what came together goes to whom the first was for",
        ("BUS-RELAY-2",),
        (
            Edit(
                "bus/core/intake.py",
                "            if commands is None or run.to != to or run.source != by:\n",
                "            if commands is None:\n",
            ),
        ),
    ),
    Mutant(
        "N53",
        "what was taken out of turn is not waited for",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/receipts.py",
                "            taken.update(range(number, number + count))\n",
                "            self.extracted = number + count - 1\n",
            ),
        ),
    ),
    Mutant(
        "N54",
        "of a run the bound is looked at before, not after, it is added",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "        if self._over():\n            self._outside -= count\n            self._outside_bytes -= size\n            return 0\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N57",
        "a run is posted though there is no room for all of it",
        ("BUS-FLOW-1", "BUS-CHAN-6"),
        (
            Edit(
                "bus/threads/account.py",
                "        count = min(self._messages_max - unread, sizes.count)\n",
                "        count = sizes.count\n",
            ),
            Edit(
                "bus/threads/account.py",
                "        if self._over():\n            self._outside -= count\n",
                "        if self.unread_bytes > self._bytes_max:\n            self._outside -= count\n",
            ),
        ),
    ),
    Mutant(
        "N55",
        "nobody is woken to acknowledge what was taken",
        ("BUS-RELAY-9", "BUS-ROUTE-4"),
        (
            Edit(
                "bus/links/comm_thread.py",
                "            if self._extractions.is_due(watched=watched):\n                self._wake()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N56",
        "who is known on one bus is taken to be known on another",
        ("BUS-ENT-14", "BUS-MSG-1"),
        (
            Edit(
                "bus/core/routing_table.py",
                "        return entry.table is self\n",
                "        return entry.table is not None\n",
            ),
        ),
    ),
    Mutant(
        "N76",
        "who asks over two buses waits for an answer that cannot come",
        ("BUS-NAME-5",),
        (
            Edit(
                "bus/core/correspondence.py",
                "            if bus == own or not message.wants_reply:\n",
                "            if bus:\n",
            ),
        ),
    ),
    Mutant(
        "N77",
        "a relay that nobody uses goes before its process is asked",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "            relay.peer.session.tell(Dismiss(relay=relay.number))\n",
                "            self.dismissed(relay.peer, relay.number)\n",
            ),
        ),
    ),
    Mutant(
        "N78",
        "who is asked for a relay goes on as if its task were known there",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "        peer.announced.discard(number)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N79",
        "a relay that was asked for goes though it is used again",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "        if revoked or self._relays.is_used(relay) or not",
                "        if revoked or not",
            ),
        ),
    ),
    Mutant(
        "N80",
        "a relay stays when the last task that used it has left",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "            self.disuse.left(entry)  # before relays forget whom they serve\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N81",
        "a relay stays when nobody hears its task any more",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/listening.py",
                "            if not presence:\n                self._disuse.unheard(machine, pattern)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N82",
        "what was dropped before a link is told to nobody",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/core/relay.py",
                "            peer.tell_gap(first)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "N83",
        "what was dropped of one notifier is told by any",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/links/relay_host.py",
                "self._gaps.pop(message._source, 0)",
                "self._gaps.pop(next(iter(self._gaps)), 0)",
            ),
        ),
    ),
    Mutant(
        "N84",
        "what a notification tells of is forgotten with it",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/threads/account.py",
                "        self.gap += 1 + oldest.gap\n",
                "        self.gap += 1\n",
            ),
        ),
    ),
    Mutant(
        "N85",
        "what is missing is told again by each later notification",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/core/intake.py",
                "        gap, relay.gap = relay.gap, 0\n",
                "        gap = relay.gap\n",
            ),
        ),
    ),
    Mutant(
        "N86",
        "the books of relays forget what was dropped for newer ones",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/core/relay.py",
                '        self.books.end("dropped", 1)\n',
                "",
            ),
        ),
    ),
    Mutant(
        "N87",
        "all others together may let as many subscriptions be kept as they like",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/listening.py",
                "has_room(frame.id, most, in_all)",
                "has_room(frame.id, most, 2**31)",
            ),
        ),
    ),
    Mutant(
        "N88",
        "a relay goes though its task was introduced by a search meanwhile",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/relay.py",
                "            self.dismissal = Dismissal.REVOKED\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "N89",
        "a process is asked for a relay again before it has answered",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "            if relay.dismissal is not Dismissal.NONE or not self._may_go(relay):\n",
                "            if not self._may_go(relay):\n",
            ),
        ),
    ),
    Mutant(
        "N90",
        "a relay that nobody has ever used stays",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/relays.py",
                "        if news:\n            self._changed.append(relay)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N91",
        "who hears a process is not told anew of its tasks on a new link",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "        self.listening.opened(peer)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N92",
        "who asks on and takes no answers may let as many wait as it likes",
        ("BUS-CHAN-8", "BUS-FLOW-1"),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "                elif peer.flooded:\n",
                "                elif not peer.session:\n",
            ),
        ),
    ),
    Mutant(
        "N93",
        "a slave searches for tasks of another process",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/tidings.py",
                "            self._check_own(peer, task.id)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "N100",
        "what waits for a process that hears is bounded in messages only",
        ("BUS-FLOW-1", "BUS-FLOW-3"),
        (
            Edit(
                "bus/core/relay.py",
                "            or self.queued_bytes + notification.size > limits.relay_bytes\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N101",
        "of a question that is answered too late a relay keeps something for good",
        ("BUS-ENT-17", "BUS-FLOW-1"),
        (
            Edit(
                "bus/core/relay.py",
                "                    self._unanswered.discard(key)\n                    self.asked",
                "                    self.asked",
            ),
        ),
    ),
    Mutant(
        "N102",
        "a relay waits for answers to questions of who has left",
        ("BUS-ENT-17",),
        (
            Edit(
                "bus/core/relay.py",
                "        self._unanswered -= {each for each in self._unanswered if each[0] is task}\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N103",
        "a subscription ends with the master that passed it on",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "        return asker if self._heard(request, asker) else None\n",
                "        return None\n",
            ),
        ),
    ),
    Mutant(
        "N104",
        "no process checks whether a subscription without a master still holds",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "        if self._confirm_at is not None and self._confirm_at <= now:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "N105",
        "a new master passes on a subscription that it has kept for another process",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "            if peer in self._ways(request) and not request.adopted:\n",
                "            if peer in self._ways(request):\n",
            ),
        ),
    ),
    Mutant(
        "N106",
        "an answer to a cancelled subscription is not refused",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/tidings.py",
                "                    if not self._is_heard(relay):\n",
                "                    if False:\n",
            ),
        ),
    ),
    Mutant(
        "N107",
        "the tasks that a lost master announced stay for ever",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/directory.py",
                "            if self._manager.far.doubtful:\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "N108",
        "tasks are gone with an idle link",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/parting.py",
                "            self._neighbours.part(peer, now)\n",
                "            self._neighbours.lose(peer, now)\n",
            ),
        ),
    ),
    Mutant(
        "N109",
        "the loss of an earlier life ends what is known of a later one",
        ("BUS-DEREG-7",),
        (
            Edit(
                "bus/core/far_tasks.py",
                "            and task.incarnation == incarnation\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N110",
        "a new watch reports tasks in doubt",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/far_tasks.py",
                "        if not self._tasks[number].doubtful:\n",
                "        if True:\n",
            ),
        ),
    ),
    Mutant(
        "N111",
        "a process that answers a watch waits for a link with the watcher, and gives it up",
        ("BUS-DEREG-2",),
        (
            Edit(
                "bus/core/listening.py",
                "            peer = self._neighbours.peers.get(asker)\n            if peer is not None and peer.is_told_to_be_other(user):\n                peer = None\n",
                "            peer = self._relays.peer_for(asker, incarnation, now, user)\n",
            ),
        ),
    ),
    Mutant(
        "N112",
        "any peer cancels any search",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/finder.py",
                "        if request is not None and request.origin is peer:\n            self.ledger.end(request)\n",
                "        if request is not None:\n            self.ledger.end(request)\n",
            ),
        ),
    ),
    Mutant(
        "N113",
        "any peer cancels any subscription",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/listening.py",
                "        if request is not None and request.origin is peer:\n            self.ledger.end(request)\n",
                "        if request is not None:\n            self.ledger.end(request)\n",
            ),
        ),
    ),
    Mutant(
        "N114",
        "any peer refuses any search",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/finder.py",
                "        if request is None or request.went.pop(peer.key, None) is None:\n",
                "        if request is None or request.went.pop(peer.key, peer) is None:\n",
            ),
        ),
    ),
    Mutant(
        "N115",
        "any peer gives the master's verdict on a name",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/directory.py",
                "        if peer is self._neighbours.master():\n            self.verdicts.answered(number)\n",
                "        if peer is not None:\n            self.verdicts.answered(number)\n",
            ),
        ),
    ),
    Mutant(
        "N116",
        "with one name all names of a process are public no more",
        ("BUS-INIT-12",),
        (
            Edit(
                "bus/core/directory.py",
                "            if user.id == frame.id:\n",
                "            if user.id is not None:\n",
            ),
        ),
    ),
    Mutant(
        "N117",
        "another machine's master ends names of this one",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/directory.py",
                "        if origin.machine == self._neighbours.me.machine:\n            self.users.remove(",
                "        if origin is not None:\n            self.users.remove(",
            ),
        ),
    ),
    Mutant(
        "N118",
        "any peer refuses a subscription without a master",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "request is not None and request.adopted and request.origin is peer",
                "request is not None and request.adopted",
            ),
        ),
    ),
    Mutant(
        "N119",
        "a late refusal ends a subscription that was sent again",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "        if request is not None and request.adopted and request.origin is peer:\n",
                "        if request is not None and request.asker == peer.key:\n",
            ),
        ),
    ),
    Mutant(
        "N120",
        "a subscription stays in force for a later life of its asker",
        ("BUS-RELAY-8",),
        (
            Edit(
                "bus/core/listening.py",
                "        if asker.session.incarnation != request.frame.subscriber.incarnation:\n            return None\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N121",
        "a relay is dismissed without a request of this process",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "        if relay is None or relay.dismissal is Dismissal.NONE:\n",
                "        if relay is None:\n",
            ),
        ),
    ),
    Mutant(
        "N122",
        "a master confirms a subscription before its slaves have",
        ("BUS-MSG-18",),
        (
            Edit(
                "bus/core/confirmations.py",
                "        if confirmation.numbers or confirmation.waits:\n",
                "        if confirmation.waits:\n",
            ),
        ),
    ),
    Mutant(
        "N123",
        "over a new link no process is asked again to confirm a subscription",
        ("BUS-MSG-18",),
        (
            Edit(
                "bus/core/listening.py",
                "        for number, confirm in self._confirmations.unanswered(peer):\n",
                "        for number, confirm in self._confirmations.unanswered(peer)[:0]:\n",
            ),
        ),
    ),
    Mutant(
        "N124",
        "a new master confirms a subscription before the others have joined",
        ("BUS-MSG-18",),
        (
            Edit(
                "bus/core/confirmations.py",
                "        if succeeds or self._until is not None:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "N125",
        "any peer confirms any subscription",
        ("BUS-MSG-18",),
        (
            Edit(
                "bus/core/confirmations.py",
                "            if confirmation.numbers.get(number) is peer:\n",
                "            if number in confirmation.numbers:\n",
            ),
        ),
    ),
    Mutant(
        "N126",
        "the announcement that a task is gone drops the messages under way to it",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/core/relays.py",
                "                    and not relay.unacked\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N127",
        "a process is given up since an earlier life of it could not be dialled",
        ("BUS-DEREG-7",),
        (
            Edit(
                "bus/core/links.py",
                "            if peer is None or not peer.dialling:\n",
                "            if peer is None:\n",
            ),
        ),
    ),
)
