"""Mutants of threads, their ends and their finalizers within a process (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_THREADS"]

BUS_THREADS: tuple[Mutant, ...] = (
    Mutant(
        "TH1",
        "the finalizer of an iterator deregisters the task, and takes locks",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "            self._bus._dropped.append(self._task)\n",
                "            self._task.deregister()\n",
            ),
        ),
    ),
    Mutant(
        "TH2",
        "the task of a dropped iterator stays registered",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/bus.py",
                "            dropped.deregister()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "TH3",
        "notifications pile up for an iterator that was dropped",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "        if self.dropped:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "TH4",
        "a task is opened by a request to its own thread, which may never serve",
        ("BUS-DEREG-14",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            if place.between_callbacks():\n                opens()\n",
                "            if False:\n                opens()\n",
            ),
        ),
    ),
    Mutant(
        "TH5",
        "an iteration drops the unread notifications when its thread is stopped",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/api/notification_iterator.py",
                "            thread._see_it_stop()\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "TH6",
        "the end of the program waits for a bus thread",
        ("OPEN-21",),
        (
            Edit(
                "bus/api/bus.py",
                'name=f"{self.name} {name}", daemon=True\n',
                'name=f"{self.name} {name}", daemon=False\n',
            ),
        ),
    ),
    Mutant(
        "TH7",
        "a child of multiprocessing closes no bus at its end",
        ("OPEN-21",),
        (
            Edit(
                "bus/at_exit.py",
                "        finalizer = util.Finalize(None, function, exitpriority=_PRIORITY)\n",
                "        finalizer = util.Finalize(None, int, exitpriority=_PRIORITY)\n",
            ),
        ),
    ),
    Mutant(
        "TH8",
        "a callback that fails writes a traceback for each message",
        ("BUS-MSG-13",),
        (
            Edit(
                "bus/threads/callback_failures.py",
                "            told = seen.logged < TRACEBACKS_MAX\n",
                "            told = True\n",
            ),
        ),
    ),
    Mutant(
        "TH9",
        "failures without a traceback are not counted",
        ("BUS-MSG-13",),
        (
            Edit(
                "bus/threads/callback_failures.py",
                "                seen.suppressed += 1\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "TH10",
        "a callback that keeps a thread from ending is not logged",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/api/bus_thread.py",
                "                    stuck.look()\n            return\n",
                "                    pass\n            return\n",
            ),
        ),
    ),
    Mutant(
        "TH11",
        "a callback in a thread that its author serves is not logged",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/api/bus_thread.py",
                "                return  # its author is about to see that it has stopped\n            stuck.look()\n",
                "                return  # its author is about to see that it has stopped\n",
            ),
        ),
    ),
    Mutant(
        "TH12",
        "a message longer than the bound waits though nothing is unread",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "self.unread_bytes + size > self._bytes_max and unread > 0\n",
                "self.unread_bytes + size > self._bytes_max\n",
            ),
        ),
    ),
    Mutant(
        "TH13",
        "the senders of messages dropped as a task opens get no error",
        ("BUS-FLOW-6",),
        (
            Edit(
                "bus/threads/exchange.py",
                "        for message in dropped:\n            message._source.box.client.was_dropped(message)\n\n    def _empty",
                "\n    def _empty",
            ),
        ),
    ),
    Mutant(
        "TH14",
        "a refused notification drops its gap",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/threads/account.py",
                "self.miss_newest_locked(1 + message.gap)",
                "self.miss_newest_locked(1)",
            ),
        ),
    ),
    Mutant(
        "TH15",
        "drops behind the unread notifications are reported by each later one",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/threads/account.py",
                "            self.behind = 0\n        else",
                "        else",
            ),
        ),
    ),
    Mutant(
        "TH16",
        "commands taken over carry the last owner's gap",
        ("BUS-FLOW-3",),
        (
            Edit(
                "bus/threads/exchange.py",
                "                item.gap = 0  # that was for this receiver\n",
                "",
            ),
        ),
    ),
    Mutant(
        "TH17",
        "an answer that was unread when its task left is not counted",
        ("BUS-FLOW-5",),
        (
            Edit(
                "bus/threads/exchange.py",
                "                client.unheard(item)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "TH18",
        "a thread that ends does not learn that a task will not register",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "        self.ask(self.pending)  # whoever waits for it looks again\n",
                "",
            ),
        ),
    ),
    Mutant(
        "TH19",
        "a task that has moved relies on the clock of its old thread",
        ("BUS-FLOW-5",),
        (
            Edit(
                "bus/api/receiver.py",
                "        self.entry = entry\n        self._armed = None\n",
                "        self.entry = entry\n",
            ),
        ),
    ),
    Mutant(
        "TH20",
        "a task is not opened that may read just as it is to wait for that",
        ("BUS-INIT-7",),
        (
            Edit(
                "bus/api/receiver.py",
                "        if self.reads():\n            self.release()  # just then: one of the two does it\n",
                "",
            ),
        ),
    ),
    Mutant(
        "TH21",
        "a caller does not wake if the answer was unread when the task left",
        ("BUS-DEREG-10",),
        (
            Edit(
                "bus/api/receiver.py",
                "            self._is_late(answer)\n            if question.gone is not None:\n                question.gone()",
                "            self._is_late(answer)",
            ),
        ),
    ),
    Mutant(
        "TH22",
        "to close a bus again takes away the next one of its name",
        ("BUS-DEREG-12",),
        (
            Edit(
                "bus/api/bus.py",
                "        if self._others.get(self.name) is self:\n",
                "        if self.name in self._others:\n",
            ),
        ),
    ),
    Mutant(
        "TH23",
        "a subscription outlives its task that left just then",
        ("BUS-DEREG-10",),
        (
            Edit(
                "bus/api/subscription.py",
                "        self._exchange.tell(lambda: self._exchange.manager.subscribe(self))\n        if self.entry.place is None:\n            self.cancel()\n",
                "        self._exchange.tell(lambda: self._exchange.manager.subscribe(self))\n",
            ),
        ),
    ),
    Mutant(
        "TH24",
        "a watch outlives its task that left just then",
        ("BUS-DEREG-10",),
        (
            Edit(
                "bus/api/subscription.py",
                "        self._exchange.decide(lambda: self._exchange.manager.watch(self))\n        if self.entry.place is None:\n            self.cancel()\n",
                "        self._exchange.decide(lambda: self._exchange.manager.watch(self))\n",
            ),
        ),
    ),
)
