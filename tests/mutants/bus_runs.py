"""Mutants of commands that share a parcel, a run, or a burst (BUS)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_RUNS"]

BUS_RUNS: tuple[Mutant, ...] = (
    Mutant(
        "N58",
        "where a parcel is split at the window one message goes to neither part",
        ("BUS-RELAY-11", "BUS-MSG-15"),
        (
            Edit(
                "bus/core/relay.py",
                "                self.queue[at] = parcel.part(fits)\n",
                "                self.queue[at] = parcel.part(fits + 1)\n",
            ),
        ),
    ),
    Mutant(
        "N59",
        "a part counts as many bytes as the whole parcel",
        ("BUS-RELAY-9", "BUS-MSG-15"),
        (
            Edit(
                "bus/core/parcel.py",
                "        return replace(self, bodies=bodies, size=sum(map(len, bodies)))\n",
                "        return replace(self, bodies=bodies)\n",
            ),
        ),
    ),
    Mutant(
        "N60",
        "a parcel of which some was taken is taken wholly",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/relay.py",
                "            if first + len(parcel.bodies) > number + 1:\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "N61",
        "a new link carries again the first bodies of a parcel, whatever is left of it",
        ("BUS-RELAY-10",),
        (
            Edit(
                "bus/core/session.py",
                "            yield start, to, parcel.part(start - first, number + 1 - first)\n",
                "            yield start, to, parcel.part(0, number + 1 - start)\n",
            ),
        ),
    ),
    Mutant(
        "N62",
        "a new link carries again what came between two messages that did not",
        ("BUS-RELAY-10", "AMO-23"),
        (
            Edit(
                "bus/core/session.py",
                "        if after != number + 1:\n",
                "        if not after:\n",
            ),
        ),
    ),
    Mutant(
        "N63",
        "a parcel goes as one frame, however much it is",
        ("BUS-CHAN-6",),
        (
            Edit(
                "bus/core/session.py",
                "    if count == 1 or (parcel.size <= BATCH_BYTES_MAX and count <= MESSAGES_MAX):\n",
                "    if parcel.bodies:\n",
            ),
        ),
    ),
    Mutant(
        "N64",
        "a run is accepted at once though something is missing below it",
        ("AMO-10",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "            or self._missing\n            or self._held\n            or not floor",
                "            or not floor",
            ),
        ),
    ),
    Mutant(
        "N65",
        "of a run that was taken only the first message counts as taken",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/receipts.py",
                "        self._pass(count)\n",
                "        self._pass(1)\n",
            ),
        ),
    ),
    Mutant(
        "N66",
        "what a task has left unread of a run counts as read when it leaves",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/core/command_run.py",
                "        rest, read = self.payloads[start:], self.payloads[:start]\n",
                "        rest, read = self.payloads[start:], self.payloads\n",
            ),
        ),
    ),
    Mutant(
        "N67",
        "who reads what came together goes on though others have something to read",
        ("BUS-ENT-7",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                " or len(ready) > 1 or inbox.items or requests:\n",
                " or inbox.items or requests:\n",
            ),
        ),
    ),
    Mutant(
        "N68",
        "who reads what came together does not see what is posted meanwhile",
        ("BUS-ENT-7", "BUS-ROUTE-3"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                " or len(ready) > 1 or inbox.items or requests:\n",
                " or len(ready) > 1:\n",
            ),
        ),
    ),
    Mutant(
        "N69",
        "a task takes out all that came together before it reads the first",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            for message in run.read(reference):\n",
                "            for message in list(run.read(reference)):\n",
            ),
        ),
    ),
    Mutant(
        "U1",
        "what was read of a run takes room until its reader stops",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/threads/account.py",
                "        self._reading = run\n",
                "        self._reading = None\n",
            ),
            Edit(
                "bus/threads/thread_manager.py",
                "            account.settle(inbox.lock)\n",
                "            account._reading = run\n            account.settle(inbox.lock)\n",
            ),
        ),
    ),
    Mutant(
        "U2",
        "of a reader that was struck nobody knows what it has read",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/threads/account.py",
                "            self.settle(lock)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "U3",
        "what was read of a run is noted twice",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/threads/account.py",
                "            run.settled += count\n",
                "",
            ),
        ),
    ),
    Mutant(
        "U4",
        "what is settled as another thread looks counts twice, or not at all",
        ("BUS-FLOW-7",),
        (
            Edit(
                "bus/threads/account.py",
                "            if self._reading is reading and self.extracted == extracted:\n",
                "            if reading is not None:\n",
            ),
            Edit(
                "bus/threads/account.py",
                "            if self._reading is reading and self.extracted_bytes == extracted:\n",
                "            if reading is not None:\n",
            ),
        ),
    ),
    Mutant(
        "N70",
        "a task that leaves takes along what it has not read of a run",
        ("BUS-DEREG-4", "BUS-MOVE-2"),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            unread += item.rest() if type(item) is CommandRun else (item,)\n",
                "            unread += [] if type(item) is CommandRun else (item,)\n",
            ),
        ),
    ),
    Mutant(
        "N71",
        "nobody is told what was read of a run",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/links/extractions.py",
                "                taken.append((run.receipt, run.number + told, read - told, size))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N72",
        "who hangs in a callback has told nobody that it reads",
        ("BUS-RELAY-9",),
        (
            Edit(
                "bus/threads/thread_manager.py",
                "            client.begins(run)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "L37",
        "a burst goes on though its task has sent something by another way",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/threads/exchange.py",
                "            return self._post(message, entry)\n        finally:\n            message._source.order = object()\n",
                "            return self._post(message, entry)\n        finally:\n            pass\n",
            ),
        ),
    ),
    Mutant(
        "L38",
        "what was added as its room was taken back is left there, room or no room",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/burst.py",
                "            payload = self.payloads.pop()\n            if self._add_locked(payload):\n                return True\n",
                "            self._post_locked()\n            return True\n",
            ),
        ),
    ),
    Mutant(
        "L39",
        "of a burst more room is taken back than it does not use",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/burst.py",
                "        return room - used, counted - size\n",
                "        return room, counted\n",
            ),
        ),
    ),
    Mutant(
        "L40",
        "a burst that was taken out counts as posted for ever",
        (
            "BUS-MSG-15",
            "BUS-RELAY-6",
        ),
        (
            Edit(
                "bus/links/burst.py",
                "            self.posted = False\n            count = min(",
                "            count = min(",
            ),
        ),
    ),
    Mutant(
        "L41",
        "what lay in a burst is posted to its relay though that was given up",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/links/relay_host.py",
                "        if entry.place is self:\n            remote.post_alike(",
                "        if entry.box is not None:\n            remote.post_alike(",
            ),
        ),
    ),
    Mutant(
        "L42",
        "room that a burst did not need is never given back",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/burst.py",
                "                self, self.room - count, self.room_bytes - size\n",
                "                self, 0, 0\n",
            ),
        ),
    ),
    Mutant(
        "L43",
        "who needs room does not get what bursts have and do not use",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/stand_in.py",
                "        if self.full(size):\n            self._reclaim_locked(size)\n        if self.full(size):\n",
                "        if self.full(size):\n",
            ),
        ),
    ),
    Mutant(
        "N94",
        "who waits for room in a relay is not told that there is none in the end",
        ("BUS-FLOW-2",),
        (
            Edit(
                "bus/links/burst.py",
                '        if outcome is PENDING:\n            raise self._stand_in.error(f"task {self.to.name!r}")\n        return outcome\n',
                "        return outcome is not PENDING\n",
            ),
        ),
    ),
    Mutant(
        "N95",
        "who waits for room in a relay goes on waiting when that is given up",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/links/burst.py",
                "            if gone():\n                return False\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N96",
        "what is added while others take room back counts as having room",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/burst.py",
                "        self.steady = False  # first: what is added from now on is looked at again\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N97",
        "payloads that come together are taken out as if all were as long as the first",
        ("BUS-WIRE-1",),
        (
            Edit(
                "bus/core/wire/lengths.py",
                "    if packed == packed[:_ITEM] * count:\n",
                "    if packed:\n",
            ),
        ),
    ),
    Mutant(
        "N73",
        "of what was taken only the number is looked at, not how long it is",
        ("BUS-RELAY-11",),
        (
            Edit(
                "bus/core/session.py",
                " or length >= limits.window_bytes // 2:\n",
                ":\n",
            ),
        ),
    ),
    Mutant(
        "N74",
        "room that was taken for short messages is used by long ones",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/api/task.py",
                "                    and len(payload) <= burst.length\n",
                "",
            ),
        ),
    ),
    Mutant(
        "N75",
        "room that was taken for short messages is kept when it is too short",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/links/burst.py",
                "            self._stand_in.reclaim_locked(self)\n",
                "            self.length = length\n",
            ),
        ),
    ),
    Mutant(
        "U5",
        "who adds to a burst does not look whether its room was taken back meanwhile",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/api/task.py",
                "                    if burst.steady or self._confirm(burst):\n",
                "                    if burst.posted or self._confirm(burst):\n",
            ),
        ),
    ),
    Mutant(
        "U6",
        "a burst to a task that has left goes on",
        ("BUS-DEREG-4",),
        (
            Edit(
                "bus/api/task.py",
                "                    and burst.to.table is not None  # its name may be another's by now\n",
                "",
            ),
        ),
    ),
    Mutant(
        "U7",
        "what joins a burst overtakes what its task has sent by another way",
        ("BUS-MSG-15",),
        (
            Edit(
                "bus/api/task.py",
                "                    and burst.source.order is burst.order\n",
                "",
            ),
        ),
    ),
    Mutant(
        "U8",
        "of messages of one length one more fits than there is room for",
        ("BUS-FLOW-1",),
        (
            Edit(
                "bus/core/wire/lengths.py",
                "            return max(0, room // max(1, self.alike))\n",
                "            return max(0, -(-room // max(1, self.alike)))\n",
            ),
        ),
    ),
    Mutant(
        "U9",
        "lengths that are not all the same travel in the order of this machine",
        ("BUS-WIRE-1",),
        (
            Edit(
                "bus/core/wire/lengths.py",
                "        several = self.several[:]\n        if _SWAPPED:\n            several.byteswap()\n",
                "        several = self.several[:]\n",
            ),
        ),
    ),
)
