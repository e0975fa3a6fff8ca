"""QB-CONC-10 with real signals: no hang and no loss, in a separate process.

The number of calls is bounded, not the time: a signal comes about every millisecond.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from specs.clauses import clause

SOAK = """
import faulthandler, os, signal, sys
faulthandler.dump_traceback_later(100, exit=True)
kind, act = sys.argv[1:]
if kind == "locked":
    os.environ["QUEUEBROKER_LOCKED"] = "1"
from queuebroker import *

ROUNDS, CAPACITY = 150, 3
observer = (lambda *_: None) if kind == "observed" else None
manager = BrokerManager(observer=observer)
b, a = (QueueBroker(n, manager=manager, capacity=CAPACITY) for n in "ba")
bytes_b, bytes_a = (Broker(n, manager=manager, capacity=64) for n in ("x", "y"))
refusals = (DisconnectedError, SendTimeoutError, ReceiveTimeoutError)
if kind == "observed":
    refusals += (RuntimeError,)

def pair():
    ends = []
    of_bytes = kind == "channel"
    acceptor, connector = (bytes_b, bytes_a) if of_bytes else (b, a)
    task = Task(acceptor, lambda: ends.append(acceptor.accept(1)))
    task.start()
    right = connector.connect(acceptor.name, 1, required=True)
    task.join()
    return ends[0], right

sent, handled, inside = [0, 0], 0, False

def put(by):
    try:
        if kind == "channel":
            left.write(b"%d" % by, timeout=0)
        else:
            left.send_nowait(b"%d" % by)
        sent[by] += 1
    except refusals:
        pass

def take():
    try:
        if kind == "channel":
            buffer = bytearray(1)
            right.read(buffer, timeout=0)
            got = bytes(buffer)
        else:
            got = right.receive_nowait()
        received[int(got)] += 1
    except refusals:
        pass

def handler(*_):
    global handled, inside
    if inside:
        return
    inside = True
    handled += 1
    if act == "send":
        put(1)
    elif act == "receive":
        take()
    elif act == "stats":
        left.stats(), right.stats()
    elif act == "disconnect":
        left.disconnect()
    elif act == "manager":
        manager.names(), b.waiting_accepts(), a.outgoing()
    inside = False

received = [0, 0]
left, right = pair()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(ROUNDS):
    for _ in range(40):
        put(0)
        left.stats()
        take()
    if act in ("disconnect", "manager"):
        left.disconnect()
        right.disconnect()
        left, right = pair()
signal.setitimer(signal.ITIMER_REAL, 0)
if act not in ("disconnect", "manager"):
    while right.pending:
        take()
    assert received == sent, (received, sent)
    assert left.stats().sent == right.stats().received == sum(sent)
assert handled > 10, handled
manager.close(disconnect=True)
"""


@pytest.mark.deep
@clause("QB-CONC-10")
@pytest.mark.parametrize("act", ["send", "receive", "stats", "disconnect", "manager"])
@pytest.mark.parametrize("kind", ["fast", "locked", "observed", "channel"])
def test_a_handler_every_millisecond_hangs_nothing_and_loses_nothing(
    kind: str, act: str
) -> None:
    """A signal handler calls methods of the ends on which its thread is working."""
    done = subprocess.run(
        [sys.executable, "-c", SOAK, kind, act],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
