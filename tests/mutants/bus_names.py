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
                "            task.deregister()  # nobody else has it\n",
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
        "V8",
        "a task reads before it is known whether it may have its name",
        ("OPEN-3",),
        (
            Edit(
                "bus/api/bus.py",
                "        receiver.hold()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "G1",
        "a guest has whatever name it asks for",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/directory.py",
                "        if not peer.rights.may_register(frame.name, peer.key[1]):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "G2",
        "a guest that answers a search is believed its name",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/tidings.py",
                "        return peer.rights.may_register(frame.task.name, peer.key[1])\n",
                "        return True\n",
            ),
            Edit(
                "bus/core/directory.py",
                "        if not peer.rights.may_register(name, peer.key[1]):\n            return False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "G3",
        "whoever asks is told where a task is",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/finder.py",
                "        if not self._may_ask(peer, frame):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "G4",
        "what comes though it is not granted is delivered",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/intake.py",
                "        if not peer.rights.may_command(target.name):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "G5",
        "what is refused counts as waiting for ever",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/arriving.py",
                "            peer.took(run.to, each, now, size=len(body))\n            if run.mid",
                "            if run.mid",
            ),
        ),
    ),
    Mutant(
        "G6",
        "who asks though it is not granted gets no answer",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/arriving.py",
                "                self._answer(question, error=why)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "G7",
        "a guest hears everybody",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/listening.py",
                "            if peer is not None and peer.rights.may_hear(task.name):\n",
                "            if peer is not None:\n",
            ),
            Edit(
                "bus/core/listening.py",
                "        if peer is not None and not peer.rights.may_hear(task.name):\n",
                "        if False:\n",
            ),
            Edit(
                "bus/core/listening.py",
                "                if not origin.rights.may_hear(task.name):\n                    return True\n",
                "",
            ),
            Edit(
                "bus/core/listening.py",
                "                    and peer.rights.may_hear(task.name)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "G8",
        "what waited for a guest before it was known goes to it",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/peer.py",
                "        self.audience.forbid(lambda parcel: not may_hear(parcel.source.name))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "G9",
        "whom a guest hears it also commands",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/relays.py",
                "        if not (private or task.closed):\n",
                "        if not private:\n",
            ),
        ),
    ),
    Mutant(
        "G10",
        "a guest passes for a process of somebody else",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/links.py",
                "        if present is not None and present.is_other(link.credentials):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "G11",
        "whoever says that a name is somebody else's is believed",
        ("BUS-SEC-7",),
        (
            Edit(
                "bus/core/directory.py",
                "        if peer is self._neighbours.master():\n            self._evict(",
                "        if peer is not None:\n            self._evict(",
            ),
        ),
    ),
    Mutant(
        "G12",
        "a guest is master if it asks for that first",
        ("BUS-SEC-3",),
        (
            Edit(
                "bus/links/run_directory.py",
                "        if self.is_guest:\n            return False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "G13",
        "guests have no place for their sockets",
        ("BUS-SEC-3",),
        (
            Edit(
                "bus/links/run_directory.py",
                "            self._make(guests, 0o3770)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "G14",
        "who is in several grants has what the first one says",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/access.py",
                "for some in patterns for each in some)",
                "for some in [*patterns][:1] for each in some)",
            ),
        ),
    ),
    Mutant(
        "G15",
        "who may not go where somebody listens is told that nobody does",
        ("QB-SOCK-2",),
        (
            Edit(
                "sockets/departure.py",
                "        if error.errno in _NOBODY:\n",
                "        if error.errno in {*_NOBODY, errno.EACCES}:\n",
            ),
        ),
    ),
    Mutant(
        "H1",
        "one registration may have two names here",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/relays.py",
                "        if self._manager.table.by_id(entry.id) not in {None, entry}:\n            return  # its process gives one registration two numbers: the first counts\n",
                "",
            ),
        ),
    ),
    Mutant(
        "H2",
        "a guest may answer with a task of another process",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/tidings.py",
                "            if not self._passes_on(peer):\n                self._check_own(peer, frame.task.id)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "H3",
        "who searches is known by whatever name it gives itself",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/tidings.py",
                "self._modest(peer, frame)",
                "frame",
            ),
        ),
    ),
    Mutant(
        "H4",
        "a guest may be the master of another machine",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/links.py",
                "        return own and identity.role is Role.SLAVE\n",
                "        return own or identity.role is Role.MASTER\n",
            ),
        ),
    ),
    Mutant(
        "H5",
        "a guest answers what others were asked",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/intake.py",
                "            return relay.was_asked(target, run.id)\n",
                "            return True\n",
            ),
        ),
    ),
    Mutant(
        "H6",
        "a guest has registered whenever it says",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/directory.py",
                "        if present is not None and more and not peer.rights.whole:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "H7",
        "who is sent to the wrong process goes there again and again",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/links.py",
                "                wanted.addresses = ()  # whoever gave them did not know better\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "H8",
        "any answer to a subscription is believed to be meant",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/listening.py",
                "        if not meant or task.id.machine != request.machine:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "H9",
        "an answer without an address is passed on",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/listening.py",
                "            check_passed_on(frame, origin)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "H10",
        "a guest that came first in the name of another stays that",
        ("BUS-SEC-1",),
        (
            Edit(
                "bus/core/relays.py",
                "        if peer is not None and peer.is_told_to_be_other(user):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "V9",
        "a verdict is told twice, each time another one",
        ("OPEN-3",),
        (
            Edit(
                "bus/threads/verdict.py",
                '        if self._said.setdefault("it", word) is not word:\n            return False\n',
                '        if self._said:\n            return False\n        self._said["it"] = word\n',
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
