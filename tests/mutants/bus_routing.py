"""Mutants of routes, departures and moves within a process (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_ROUTING"]

BUS_ROUTING: tuple[Mutant, ...] = (
    Mutant(
        "R1",
        "a message is posted where the task was when it was looked up",
        ("BUS-ROUTE-1", "BUS-MOVE-2"),
        (
            Edit(
                "bus/threads/inbox.py",
                "            if message._to.place is not place:\n                return Admission.GONE\n            admission = Admission.ACCEPTED\n",
                "            admission = Admission.ACCEPTED\n",
            ),
        ),
    ),
    Mutant(
        "R2",
        "who moves leaves behind what lay in the inbox",
        ("BUS-MOVE-2", "BUS-MSG-15"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            items = self.inbox.take_locked()\n            entry.box, entry.place = new, to\n",
                "            entry.box, entry.place = new, to\n            items = ()\n",
            ),
        ),
    ),
    Mutant(
        "R3",
        "what was not read goes behind what was sent since the move",
        ("BUS-MOVE-2", "BUS-MSG-15"),
        (
            Edit(
                "bus/threads/mailbox.py",
                "deque([*waited, *(items or ())])",
                "deque([*(items or ()), *waited])",
            ),
        ),
    ),
    Mutant(
        "R4",
        "what moves along is put in front in the wrong order",
        ("BUS-MOVE-2", "BUS-MSG-15"),
        (
            Edit(
                "bus/threads/mailbox.py",
                "deque([*waited, *(items or ())])",
                "deque([*reversed(waited), *(items or ())])",
            ),
        ),
    ),
    Mutant(
        "R5",
        "who registers is opened before what was parked is there",
        ("BUS-ROUTE-20", "BUS-MSG-15"),
        (
            Edit(
                "bus/threads/mailbox.py",
                "        self.held: bool = True\n",
                "        self.held: bool = False\n",
            ),
        ),
    ),
    Mutant(
        "R6",
        "a poster wakes nobody",
        ("BUS-ROUTE-3", "BUS-ENT-5"),
        (
            Edit(
                "bus/threads/inbox.py",
                "        if self.arrived.asleep:\n            self.wakeups += 1\n            self.arrived.wake_one()\n",
                "        pass\n",
            ),
            Edit(
                "bus/threads/inbox.py",
                "                if self.arrived.asleep:  # as in `_rouse_locked`, for each message\n",
                "                if False:\n",
            ),
        ),
    ),
    Mutant(
        "R7",
        "a thread is woken for each message",
        ("BUS-ROUTE-4",),
        (
            Edit(
                "bus/threads/inbox.py",
                "        if self.arrived.asleep:\n            self.wakeups += 1\n",
                "        self.wakeups += 1\n        if self.arrived.asleep:\n",
            ),
        ),
    ),
    Mutant(
        "R8",
        "a move does not wait for what the last one brings",
        ("BUS-MOVE-1", "BUS-MSG-15"),
        (
            Edit(
                "bus/threads/exchange.py",
                "            elif entry.box.held:\n                entry.box.deferred.append(here)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R9",
        "a task moves while its callback runs",
        ("BUS-MOVE-3",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            and self.running is None\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R10",
        "a message within a thread runs its callback at once",
        ("BUS-ENT-7", "BUS-ROUTE-2"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        self._put(entry.box, message)\n        return Admission.ACCEPTED\n",
                "        self._put(entry.box, message)\n        self._turn()\n        return Admission.ACCEPTED\n",
            ),
        ),
    ),
    Mutant(
        "R11",
        "a task reads all it has in one turn",
        ("BUS-ENT-7",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        if box.items:\n            ready.rotate(-1)\n        else:\n",
                "        if not box.items:\n",
            ),
        ),
    ),
    Mutant(
        "R12",
        "what is parked is delivered in the wrong order",
        ("BUS-ROUTE-20", "BUS-MOVE-5"),
        (
            Edit(
                "bus/core/parked_list.py",
                "        taken = [one.message for one in self._by_name.pop(name, ())]",
                "        taken = [one.message for one in reversed(self._by_name.pop(name, ()))]",
            ),
        ),
    ),
    Mutant(
        "R13",
        "what was not read is parked behind what was sent since",
        ("BUS-DEREG-8", "BUS-MSG-15"),
        (
            Edit(
                "bus/core/parked_list.py",
                "            queue.extendleft(reversed(messages))",
                "            queue.extend(messages)",
            ),
        ),
    ),
    Mutant(
        "R14",
        "a name is opened for the next one before the last one is emptied",
        ("BUS-DEREG-1", "BUS-DEREG-8"),
        (
            Edit(
                "bus/core/process_manager.py",
                "        if self._leaving.get(entry.name):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "R15",
        "a task that leaves twice takes the newer registration of its name along",
        ("BUS-DEREG-1",),
        (
            Edit(
                "bus/core/process_manager.py",
                "        if entry not in self.table:\n            return []\n",
                "        entry = self.table.named(entry.name) or entry\n",
            ),
        ),
    ),
    Mutant(
        "R16",
        "who leaves for good leaves its messages waiting",
        ("BUS-DEREG-8",),
        (
            Edit(
                "bus/core/process_manager.py",
                "        if final or entry.visibility is Visibility.PRIVATE:\n",
                "        if entry.visibility is Visibility.PRIVATE:\n",
            ),
        ),
    ),
    Mutant(
        "R17",
        "a parked message outlives its own time",
        ("BUS-ROUTE-19",),
        (
            Edit(
                "bus/core/process_manager.py",
                "            deadline = min(deadline, message._deadline)",
                "            deadline = max(deadline, message._deadline)",
            ),
        ),
    ),
    Mutant(
        "R18",
        "a private task is found by its name",
        ("BUS-ENT-4",),
        (
            Edit(
                "bus/core/routing_table.py",
                "        public = entry.visibility is Visibility.PUBLIC\n",
                "        public = True\n",
            ),
        ),
    ),
    Mutant(
        "R19",
        "who leaves goes on hearing",
        ("BUS-DEREG-10",),
        (
            Edit(
                "bus/core/process_manager.py",
                "        for interest in self.subscriptions.of(entry):\n            self.unsubscribe(interest)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R20",
        "a name may be taken twice, if one of the two is private",
        ("BUS-NAME-7",),
        (
            Edit(
                "bus/core/routing_table.py",
                "        if public is None or public.remote:\n            return self._private.get(name)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R21",
        "the bound is looked at before, not after, a message is added",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "        self._inside += 1\n        self._inside_bytes += message._size\n        if not self._over():\n            return True\n        self._inside -= 1\n        self._inside_bytes -= message._size\n",
                "        if not self.full(message._size):\n            self._inside += 1\n            self._inside_bytes += message._size\n            return True\n",
            ),
        ),
    ),
    Mutant(
        "R22",
        "one more than the bound fits",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "        return unread > self._messages_max or (",
                "        return unread > self._messages_max + 1 or (",
            ),
        ),
    ),
    Mutant(
        "R23",
        "who is held back is not told of room",
        ("BUS-FLOW-6", "BUS-FLOW-2"),
        (
            Edit(
                "bus/threads/inbox.py",
                "        if self.room.asleep:\n            with self.lock:\n                self.room.wake_all()\n",
                "        return\n",
            ),
        ),
    ),
    Mutant(
        "R24",
        "the newest is dropped and nobody is told",
        ("BUS-FLOW-6",),
        (
            Edit(
                "bus/threads/exchange.py",
                "                if admission is Admission.DROPPED:\n"
                "                    message._source.box.client.was_dropped(message)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R25",
        "an answer overtakes what was told before it",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/exchange.py",
                "        if place is not None and place.idle:\n",
                "        if place is not None:\n",
            ),
        ),
    ),
    Mutant(
        "R26",
        "the thread of a task is woken for who waits in another one",
        ("BUS-MSG-11",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            if client.hears(answer):\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "R27",
        "what a thread sends to itself overtakes what came from another one",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            and not self.inbox.items\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R28",
        "what is recorded goes past the inbox that it got its number under",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            and message._trace is None\n",
                "",
            ),
        ),
    ),
)
