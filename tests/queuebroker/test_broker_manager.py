"""`BrokerManager`: the owners of names, and its state after a fork."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    BrokerNameInUseError,
    QueueBroker,
    RendezvousTimeoutError,
    default_manager,
)
from tests.depth import among
from tests.kit.systems import needs_fork
from tests.meetings import meet

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from(["a", "A", "b", "\u00e9", "e\u0301"])


class Naming(RuleBasedStateMachine):
    """Names registered, closed and looked up in any order, beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BrokerManager()
        self.names: dict[str, Broker] = {}
        self.gone: list[Broker] = []
        self.caller = Broker("caller", manager=self.manager)

    def teardown(self) -> None:
        """Leave no broker registered."""
        self.manager.close()
        assert self.manager.names() == []

    @rule(name=NAMES, as_queue=st.booleans())
    def create(self, name: str, as_queue: bool) -> None:
        """Register a name, unless it is in use."""
        make = QueueBroker if as_queue else Broker
        if name in self.names:
            with pytest.raises(BrokerNameInUseError):
                make(name, manager=self.manager)
            return
        make(name, manager=self.manager)
        found = self.manager.get(name)
        assert found is not None
        assert found not in (*self.names.values(), *self.gone)
        self.names[name] = found

    @rule(name=NAMES)
    def close(self, name: str) -> None:
        """Close the broker that has the name."""
        if name in self.names:
            broker = self.names.pop(name)
            broker.close()
            self.gone.append(broker)

    @rule(data=st.data())
    def close_again(self, data: st.DataObject) -> None:
        """Close a closed broker; the present owner of the name is not affected."""
        if self.gone:
            data.draw(st.sampled_from(self.gone)).close()

    @rule(name=NAMES)
    def look_up(self, name: str) -> None:
        """Find exactly the open brokers, by an equal value and by a connect."""
        equal = "".join(list(name))
        assert self.manager.get(equal) is self.names.get(name)
        if name in self.names:
            with pytest.raises(RendezvousTimeoutError):
                self.caller.connect(equal, 1, timeout=0)
        else:
            assert self.caller.connect(equal, 1, timeout=0) is None

    @invariant()
    def names_in_order(self) -> None:
        """The names are those of open brokers, in order of registration."""
        assert self.manager.names() == ["caller", *self.names]
        assert all(not broker.closed for broker in self.names.values())
        assert all(broker.closed for broker in self.gone)


TestNaming = Naming.TestCase
TestNaming.settings = settings(max_examples=among(12, 50), stateful_step_count=40)


def test_the_default_manager_is_made_once_and_used_by_default() -> None:
    """Brokers without a manager meet there, and nowhere else."""
    with Broker("of the default") as broker, BrokerManager() as other:
        assert broker.manager is default_manager() is default_manager()
        assert default_manager().get("of the default") is broker
        assert other.get("of the default") is None


def test_a_closed_manager_takes_no_broker() -> None:
    """It may be closed again; its repr shows it closed."""
    manager = BrokerManager()
    assert (manager.closed, repr(manager)) == (False, "<BrokerManager 0 brokers>")

    manager.close()
    manager.close()

    assert (manager.closed, repr(manager)) == (True, "<BrokerManager closed>")
    for make in (Broker, QueueBroker):
        with pytest.raises(BrokerClosedError, match="'late': its manager is closed"):
            make("late", manager=manager)


def test_an_observer_can_be_called() -> None:
    """Otherwise the first bind would fail, far from the mistake."""
    with pytest.raises(TypeError, match=r"^observer must be callable, got int$"):
        BrokerManager(observer=5)  # type: ignore[arg-type]  # under test


def test_a_queue_broker_is_made_of_a_name_or_of_a_broker() -> None:
    """Other objects are rejected, even a QueueBroker; nothing is registered."""
    with BrokerManager() as manager:
        made = QueueBroker("b", manager=manager)

        text = r"^name must be a str or a Broker, got QueueBroker$"
        with pytest.raises(TypeError, match=text):
            QueueBroker(made, manager=manager)  # type: ignore[arg-type]  # under test
        assert manager.names() == ["b"]


def test_close_with_disconnect_may_follow_close() -> None:
    """The closed manager still knows its queues."""
    manager = BrokerManager()
    ends = meet(QueueBroker("b", manager=manager), QueueBroker("a", manager=manager))

    manager.close()
    assert [end.closed for end in ends] == [False, False]
    manager.close(disconnect=True)

    assert [end.closed for end in ends] == [True, True]


def test_a_manager_forgets_disconnected_connections() -> None:
    """A server makes connections for months."""
    with BrokerManager() as manager:
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        for _ in range(5):
            for end in meet(b, a):
                end.disconnect()
            del end

        assert len(manager._connections) == 0


FORK = """
import os, sys
from queuebroker import *

manager = BrokerManager()
broker = Broker("b", manager=manager)
queues = QueueBroker("q", manager=manager)
refused = []

def attempt(act):
    try:
        act()
    except BrokerClosedError as error:
        refused.append(str(error))

child = os.fork()
if child == 0:
    attempt(lambda: broker.accept(1, timeout=0))
    attempt(lambda: broker.connect("b", 1, timeout=0))
    attempt(lambda: broker.connect("nobody", 1, timeout=0))
    attempt(lambda: queues.accept(1, timeout=0))
    attempt(lambda: queues.connect("q", 1, timeout=0))
    attempt(lambda: Broker("c", manager=manager))
    fresh = BrokerManager()
    QueueBroker(Broker("c", manager=fresh))
    os._exit(len(refused) if len(set(refused)) == 1 else 99)
_, status = os.waitpid(child, 0)
try:
    broker.accept(1, timeout=0)
except RendezvousTimeoutError:
    sys.exit(os.waitstatus_to_exitcode(status))
"""


# From 3.12 on os.fork warns of threads, rightly; as an error it would stop the fork on
# 3.15.
_FORK = "ignore:This process:DeprecationWarning"


def _end_of(program: str) -> tuple[int, bytes]:
    """Run a program with warnings as errors: its exit code and standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", _FORK, "-c", program],
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@needs_fork
def test_brokers_do_not_survive_a_fork_in_the_child() -> None:
    """Calls raise there, a new manager works, and the parent goes on."""
    assert _end_of(FORK) == (6, b"")


FORK_WHILE_LOCKED = """
import os, signal, sys, threading
from queuebroker import *

broker = QueueBroker("b")
manager = default_manager()
held, over = threading.Event(), threading.Event()

def hold():
    with manager.lock:
        held.set()
        over.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)  # hanging would kill it
    with broker:
        pass
    manager.close()
    with QueueBroker("b"):
        os._exit(0)
over.set()
holder.join()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.deep
@needs_fork
def test_the_child_of_a_fork_can_close_objects_that_another_thread_had_locked() -> None:
    """Nothing waits there for a thread that no longer exists; the names are free."""
    assert _end_of(FORK_WHILE_LOCKED) == (0, b"")


@pytest.mark.parametrize(
    "act",
    [
        lambda broker: broker.accept(1, timeout=0),
        lambda broker: broker.connect("b", 1),
        lambda broker: Broker("c", manager=broker.manager),
    ],
)
def test_the_text_says_that_it_was_the_fork(
    act: Callable[[Broker], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text for a broker that was closed differs."""
    with BrokerManager() as manager:
        broker = Broker("b", manager=manager)
        monkeypatch.setattr(manager, "_born", -1)

        text = "^cannot use a broker made before a fork: its threads are not here$"
        with pytest.raises(BrokerClosedError, match=text):
            act(broker)
