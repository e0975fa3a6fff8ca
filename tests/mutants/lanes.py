"""Mutants of the fast kind of end: what its story says must not be left out."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["LANES"]

LANES: tuple[Mutant, ...] = (
    Mutant(
        "F1",
        "a receiver lies down without looking again",
        ("QB-CONC-4", "QB-RECV-2"),
        (
            Edit(
                "fast_queue.py",
                "        if lane.messages or lane.shut:\n",
                "        if lane.shut:\n",
            ),
        ),
    ),
    Mutant(
        "F2",
        "a wake-up that was for another is not passed on",
        ("QB-CONC-4", "QB-BULK-1"),
        (
            Edit(
                "fast_queue.py",
                "if len(lane.messages) > 1 and sleepers.present:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "F3",
        "a parker that woke up for no reason stays on the list",
        ("QB-CONC-6", "QB-CONC-4"),
        (
            Edit(
                "fast_queue.py",
                "        elif sleeping:\n",
                "        elif False:\n",
            ),
        ),
    ),
    Mutant(
        "F4",
        "a hang-up raises its flag before it shuts the lanes",
        ("QB-DISC-1", "QB-DISC-2", "QB-CONC-7"),
        (
            Edit(
                "lane_connection.py",
                "        if self._made and not self.hung_up[side]:\n"
                "            self.shut_locked()\n",
                "        self.closed[side] = True\n        self.shut_locked()\n",
            ),
        ),
    ),
    Mutant(
        "F5",
        "who is under way when a lane is shut does not look afterwards",
        ("QB-DISC-1", "QB-DISC-2", "QB-BOOK-1", "QB-CONC-4", "QB-CONC-7"),
        (
            Edit(
                "lane.py",
                "        self.look_from_now_on_locked()\n        steps =",
                "        steps =",
            ),
        ),
    ),
    Mutant(
        "F6",
        "the capacity is looked at, not taken: two senders find the last place",
        ("QB-BUF-2", "QB-BUF-4", "QB-SEND-2", "QB-CONC-7"),
        (
            Edit(
                "fast_queue.py",
                "            for _ in lane.free:\n"
                "                lane.messages.append(data)",
                "            while len(lane.messages) < lane.capacity:\n"
                "                lane.messages.append(data)",
            ),
        ),
    ),
    Mutant(
        "F7",
        "a slot is free again before its message was fetched",
        ("QB-BUF-2", "QB-CONC-7", "QB-TIME-8"),
        (
            Edit(
                "lane.py",
                "        return not self._messages and self.free_slots() == self.capacity\n",
                "        return not self._messages\n",
            ),
        ),
    ),
    Mutant(
        "F8",
        "what looks full is told of without waiting for those under way",
        ("QB-TIME-8", "QB-CONC-7"),
        (
            Edit(
                "lane.py",
                "        return len(self._messages) >= self.capacity or not self.full()\n",
                "        return True\n",
            ),
        ),
    ),
    Mutant(
        "F9",
        "each wake-up grants a receiver another second",
        ("QB-TIME-3",),
        (
            Edit(
                "fast_queue.py",
                "                except IndexError:\n"
                "                    pass  # nothing is here\n",
                "                except IndexError:\n"
                "                    deadline = deadline and deadline + 1\n",
            ),
        ),
    ),
    Mutant(
        "F10",
        "a disconnect takes back what a receive has taken without the lock",
        ("QB-RECV-6", "QB-CONC-7"),
        (
            Edit(
                "fast_queue.py",
                "                        return message",
                "                        if self._connection.closed[self._side]:\n"
                '                            raise self._refusal("receive")\n'
                "                        return message",
            ),
        ),
    ),
    Mutant(
        "F11",
        "of several who make the lanes each keeps its own",
        ("QB-CONC-4", "QB-CONC-7"),
        (
            Edit(
                "lane_connection.py",
                "        return self._made[0]\n",
                "        return self._made[-1]\n",
            ),
        ),
    ),
    Mutant(
        "F12",
        "who sleeps on a new lane does not learn of a hang-up before it",
        ("QB-RECV-4", "QB-RECV-5", "QB-DISC-3", "QB-DISC-7", "QB-CONC-4"),
        (
            Edit(
                "lane_connection.py",
                "        if True in self.closed:\n"
                "            self.shut_locked()  # there was",
                "        if False:\n            self.shut_locked()  # there was",
            ),
        ),
    ),
    Mutant(
        "F13",
        "each message of a bulk send looks the gate up anew",
        ("QB-BULK-1", "QB-FIFO-3", "QB-RECV-8"),
        (
            Edit(
                "lane.py",
                "                for _ in free:\n",
                "                for _ in self.free:\n",
            ),
        ),
    ),
    Mutant(
        "F14",
        "a list of waiters denies for a moment that anybody sleeps",
        ("QB-CONC-4", "QB-ERR-9"),
        (
            Edit(
                "parking.py",
                "        sleeping = [parker for",
                "        self.asleep = self._pinned\n        sleeping = [parker for",
            ),
        ),
    ),
    Mutant(
        "F15",
        "a finalizer makes a call before it lets go of the lock",
        ("QB-CONC-9", "QB-PY-7"),
        (
            Edit(
                "connection.py",
                "                if taken and taken[0]:\n"
                "                    self.lock.release()\n",
                "                if any(taken):\n"
                "                    self.lock.release()\n",
            ),
        ),
    ),
    Mutant(
        "F16",
        "a receive that is struck before it looks under the lock keeps a wake-up",
        ("QB-CONC-4", "QB-ERR-9"),
        (
            Edit(
                "fast_queue.py",
                "        except DisconnectedQueueError:\n"
                "            raise\n"
                "        except BaseException:\n"
                "            self._lanes.recover()\n"
                "            raise\n",
                "",
            ),
        ),
    ),
    Mutant(
        "F17",
        "a bulk send calls full what only looks so",
        ("QB-TIME-8", "QB-BULK-1"),
        (
            Edit(
                "locked_queue.py",
                "                verdict = self._act(attempt, rest_s, sends=True)\n",
                "                verdict = super()._act(attempt, rest_s, sends=True)\n",
            ),
        ),
    ),
    Mutant(
        "F18",
        "what was left under the lock of a last look is not settled",
        ("QB-CONC-9",),
        (
            Edit(
                "parking.py",
                "            self._state.settle()\n            if done:\n",
                "            if not done or outcome is PENDING and not last:\n"
                "                self._state.settle()\n"
                "            if done:\n",
            ),
        ),
    ),
)
