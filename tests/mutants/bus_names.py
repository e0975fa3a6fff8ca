"""Mutants of names that others have a say in, and of bursts at their edges (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_NAMES"]

BUS_NAMES: tuple[Mutant, ...] = (
    Mutant(
        "V1",
        "the verdict on a name is asked for before the master knows the name",
        ("OPEN-3",),
        (
            Edit(
                "bus/core/directory.py",
                "            master.session.tell(self._export(task))\n            self.verdicts.ask(master, task)\n",
                "            self.verdicts.ask(master, task)\n            master.session.tell(self._export(task))\n",
            ),
        ),
    ),
    Mutant(
        "V2",
        "a verdict that was lost with a link is not asked for again",
        ("OPEN-3",),
        (
            Edit(
                "bus/core/neighbourhood.py",
                "        self.directory.opened(peer)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "V3",
        "who registers does not wait for the verdict",
        ("OPEN-3",),
        (
            Edit(
                "bus/api/bus.py",
                "wait_s = 0.0 if self._in_callback() else _VERDICT_S",
                "wait_s = 0.0",
            ),
        ),
    ),
    Mutant(
        "V4",
        "who registers waits for the verdict within a callback",
        ("OPEN-3",),
        (
            Edit(
                "bus/api/bus.py",
                "wait_s = 0.0 if self._in_callback() else _VERDICT_S",
                "wait_s = _VERDICT_S",
            ),
        ),
    ),
    Mutant(
        "V5",
        "who becomes master goes on waiting for the word of one that is gone",
        ("OPEN-3",),
        (
            Edit(
                "bus/core/directory.py",
                "        self.verdicts.become_master()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "V6",
        "who is interrupted as it waits for the verdict leaves the task behind",
        ("OPEN-3",),
        (
            Edit(
                "bus/api/bus.py",
                "                task.deregister()  # nobody else has it\n",
                "",
            ),
        ),
    ),
    Mutant(
        "V7",
        "a process that was alone tells nobody of the tasks that it had by then",
        ("BUS-INIT-15",),
        (
            Edit(
                "bus/links/comm_thread.py",
                "                actions += self.remote.registered(entry, now)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "E1",
        "who finds room for one waits for as much as is taken at once",
        ("BUS-FLOW-2",),
        (
            Edit(
                "bus/links/burst.py",
                "return PENDING if self._stand_in.full(size) else False",
                "return PENDING",
            ),
        ),
    ),
    Mutant(
        "E2",
        "the thread that makes room waits for room",
        ("BUS-CHAN-3",),
        (
            Edit(
                "bus/links/relay_host.py",
                'if to.overflow != "block" or self.owned():',
                'if to.overflow != "block":',
            ),
        ),
    ),
    Mutant(
        "E3",
        "a relay whose name is somebody else's never goes",
        ("BUS-DEREG-13",),
        (
            Edit(
                "bus/core/disuse.py",
                "            if relay.peer.relays.get(relay.number) is relay:\n",
                "            if relay.entry.place is not None:\n",
            ),
        ),
    ),
    Mutant(
        "E4",
        "a task that leaves as it begins to send quickly sends for ever",
        ("BUS-DEREG-1",),
        (
            Edit(
                "bus/api/task.py",
                "if self._entry.place is None or not burst.add(payload):",
                "if not burst.add(payload):",
            ),
        ),
    ),
)
