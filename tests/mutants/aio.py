"""Mutants of the asyncio face: what goes wrong where a coroutine waits."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["AIO"]

AIO: tuple[Mutant, ...] = (
    Mutant(
        "A1",
        "a cancelled receive keeps its message",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waiting.py",
                "        return\n    wait.withdraw()\n",
                "        return\n    wait.look(last=True)\n",
            ),
        ),
    ),
    Mutant(
        "A2",
        "a cancelled accept stays on the list",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waiting.py",
                "    if rdv.waiting or not isinstance(error, GeneratorExit):\n",
                "    if isinstance(error, GeneratorExit):\n",
            ),
        ),
    ),
    Mutant(
        "A3",
        "a cancelled receive that was just woken wakes nobody in its place",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waiting.py",
                "        return\n    wait.withdraw()\n",
                "        return\n    waiters.leave(wait.parker)\n",
            ),
        ),
    ),
    Mutant(
        "A4",
        "a loop that wakes a hair early raises the timeout too early",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waker.py",
                "                if timer is not None:\n                    timer.cancel()\n",
                "                if timer is not None:\n                    timer.cancel()\n"
                "            if timer is not None and self.locked():\n"
                "                return False\n",
            ),
        ),
    ),
    Mutant(
        "A5",
        "a coroutine that is collected waits for the lock",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waiting.py",
                "    if waiter is None or not isinstance(waiters, Sleepers):\n",
                "    if True:\n",
            ),
        ),
    ),
    Mutant(
        "A6",
        "the data is taken when the send is awaited",
        ("QB-PY-11",),
        (
            Edit(
                "aio/message_queue.py",
                "        message = snapshot(data, offset, length, self._end._connection.limit)\n",
                "        snapshot(data, offset, length, self._end._connection.limit)\n"
                "        message = (data, offset, length)\n",
            ),
            Edit(
                "aio/message_queue.py",
                "        try:\n            self._end.send(message, timeout=0)\n",
                "        message = snapshot(*message, None)\n"
                "        try:\n            self._end.send(message, timeout=0)\n",
            ),
        ),
    ),
    Mutant(
        "A7",
        "a loop forgets who was rung for while it answered",
        ("QB-PY-11",),
        (
            Edit(
                "aio/waker.py",
                "            with contextlib.suppress(BlockingIOError):\n"
                "                os.eventfd_read(self._opened[0])\n"
                "            self._rouse_all()  # a call: see `_sync.Lock`\n",
                "            self._rouse_all()  # a call: see `_sync.Lock`\n"
                "            with contextlib.suppress(BlockingIOError):\n"
                "                os.eventfd_read(self._opened[0])\n",
            ),
        ),
    ),
    Mutant(
        "A8",
        "who is listed does not hold its task",
        ("QB-CONC-9", "QB-PY-11"),
        (
            Edit(
                "aio/waker.py",
                "                self._task = asyncio.current_task(loop)\n",
                "                self._task = None\n",
            ),
        ),
    ),
    Mutant(
        "A9",
        "an interrupt in the loop's reader loses the wake-up",
        ("QB-PY-11", "QB-ERR-9"),
        (
            Edit(
                "aio/waker.py",
                "            os.eventfd_write(self._opened[0], 1)\n            raise\n",
                "            raise\n",
            ),
        ),
    ),
    Mutant(
        "A10",
        "an accept that is closed while it waits stays on the list",
        ("QB-PY-11", "QB-RDV-11"),
        (
            Edit(
                "aio/waiting.py",
                "    if rdv.waiting or not isinstance(error, GeneratorExit):\n",
                "    if not isinstance(error, GeneratorExit):\n",
            ),
        ),
    ),
)
