"""QB-NAME: managers, names, and the effects of closing a broker."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker import (
    Broker,
    BrokerManager,
    BrokerNameInUseError,
    QueueBroker,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.testing import History, check_linearizable, explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import accepts_wait, connects_wait, meet
from tests.spec.faces import FACES, both_faces
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queuebroker.testing import Call, Run
    from tests.spec.faces import Face


@clause("QB-NAME-1")
@both_faces
def test_two_managers_share_nothing(face: Face) -> None:
    """The same name in two managers resolves to each one's own broker."""
    with BrokerManager() as here, BrokerManager() as there:
        mine, other = face("b", manager=here), face("b", manager=there)
        abroad = face("abroad", manager=there)

        assert here.names() == ["b"]
        assert there.names() == ["b", "abroad"]
        assert here.get("abroad") is None
        assert here.get("b") is not there.get("b")
        assert mine.connect("abroad", 1, timeout=1) is None
        with pytest.raises(RendezvousTimeoutError):
            abroad.connect("b", 1, timeout=0)
        mine.close()
        assert not other.closed
        assert there.names() == ["b", "abroad"]


@clause("QB-NAME-2")
@both_faces
def test_a_broker_is_found_once_its_constructor_has_returned(
    face: Face, manager: BrokerManager
) -> None:
    """By get, by names, and by a connect that starts after it."""
    caller = face("caller", manager=manager)
    assert caller.connect("late", 1, timeout=0) is None

    late = face("late", manager=manager)

    found = manager.get("late")
    assert found is (late if isinstance(late, Broker) else late._broker)
    assert manager.names() == ["caller", "late"]
    with pytest.raises(RendezvousTimeoutError):
        caller.connect("late", 1, timeout=0)


NAMES = st.sampled_from(["a", "b"])
STEPS = st.lists(st.tuples(st.sampled_from(["create", "close", "get"]), NAMES))


@clause("QB-NAME-2")
@given(STEPS)
def test_a_manager_maps_names_to_brokers_like_a_dict(
    steps: list[tuple[str, str]],
) -> None:
    """Any sequence of create, close and look-up gives the results of a dict."""
    live: dict[str, Broker] = {}
    with BrokerManager() as manager:
        for act, name in steps:
            if act == "close":
                if name in live:
                    live.pop(name).close()
            elif act == "get" or name in live:
                assert manager.get(name) is live.get(name)
            else:
                live[name] = Broker(name, manager=manager)
            assert manager.names() == list(live)


class Names:
    """The model: pairs of a name and its broker."""

    def initial(self) -> frozenset[tuple[str, object]]:
        """Return the state without names."""
        return frozenset()

    def step(
        self, state: frozenset[tuple[str, object]], operation: Call
    ) -> Iterable[frozenset[tuple[str, object]]]:
        """Return the next state if the operation can have this result."""
        live = dict(state)
        (given_,) = operation.args
        match operation.name:
            case "create" if given_ in live:
                return [state] * isinstance(operation.error, BrokerNameInUseError)
            case "create":
                after = state | {(given_, operation.result)}
                return [after] * (operation.error is None)
            case "get":
                return [state] * (operation.result is live.get(given_))
            case _:
                return [frozenset(pair for pair in state if pair[1] is not given_)]


SCRIPTS = {
    "one name": (["create", "close"], ["create", "get"], ["get", "create"]),
    "closing": (["create", "close", "create"], ["get", "create"], ["get", "get"]),
}


@clause("QB-NAME-2")
@pytest.mark.parametrize("scripts", SCRIPTS.values(), ids=SCRIPTS)
def test_create_close_and_get_are_linearizable(scripts: tuple[list[str], ...]) -> None:
    """Three threads use one name: in every schedule some order explains all results."""

    def program(run: Run) -> None:
        manager, history = BrokerManager(), History()

        def perform(script: list[str]) -> None:
            mine: list[Broker] = []
            for act in script:
                if act == "create":
                    with contextlib.suppress(BrokerNameInUseError):
                        mine.append(history.call("create", create, "x"))
                elif act == "get":
                    history.call("get", manager.get, "x")
                elif mine:
                    history.call("close", Broker.close, mine.pop())

        def create(name: str) -> Broker:
            return Broker(name, manager=manager)

        for script in scripts:
            run.spawn(perform, script)
        run.join()
        check_linearizable(history.operations, Names())

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(3000))


@clause("QB-NAME-2", "QB-NAME-12")
def test_a_name_that_is_taken_by_a_queue_broker_can_be_connected_to() -> None:
    """The name is never in use while its face for queues is unknown."""

    def program(run: Run) -> None:
        manager = BrokerManager()
        caller = QueueBroker("caller", manager=manager)
        making = run.spawn(lambda: QueueBroker("x", manager=manager))
        try:
            QueueBroker("x", manager=manager).close()
        except BrokerNameInUseError:
            with pytest.raises(RendezvousTimeoutError):
                caller.connect("x", 1, timeout=0, required=True)
        making.join()
        making.error  # noqa: B018  # it may be refused

    explore(program, bound=2, random=schedules(50), seed=1)


@clause("QB-NAME-3")
@both_faces
@pytest.mark.parametrize("name", ["a", " ", "caf\u00e9", "a\0b", "x" * 10_000])
def test_a_name_is_compared_by_value(
    face: Face, name: str, manager: BrokerManager
) -> None:
    """An equal string that is another object finds the broker (kills M16)."""
    broker = face(name, manager=manager)
    equal = name.encode().decode()

    assert broker.name == name
    assert manager.get(equal) is not None
    with pytest.raises(RendezvousTimeoutError):
        broker.connect(equal, 1, timeout=0)
    with pytest.raises(BrokerNameInUseError):
        face(equal, manager=manager)


@clause("QB-NAME-3")
@both_faces
def test_names_are_case_sensitive_and_not_normalised(
    face: Face, manager: BrokerManager
) -> None:
    """Strings that differ are different names."""
    names = ["a", "A", "a ", "caf\u00e9", "cafe\u0301", "\u212b", "\u00c5"]

    for name in names:
        face(name, manager=manager)

    assert manager.names() == names


@clause("QB-NAME-3")
@both_faces
@pytest.mark.parametrize("name", [b"a", None, 1, ("a",), bytearray(b"a"), ["a"]])
def test_a_name_of_another_type_is_a_type_error(
    face: Face, name: Any, manager: BrokerManager
) -> None:
    """To create a broker or connect to one; nothing is registered."""
    caller = face("caller", manager=manager)

    # A QueueBroker also takes a Broker in place of the name; its error says so.
    with pytest.raises(TypeError, match=r"^name (of a broker )?must be a str"):
        face(name, manager=manager)
    with pytest.raises(TypeError, match="name of a broker must be a str"):
        caller.connect(name, 1)

    assert manager.names() == ["caller"]


@clause("QB-NAME-3")
@both_faces
def test_the_empty_name_is_a_value_error(face: Face, manager: BrokerManager) -> None:
    """To create a broker or connect to one; nothing is registered."""
    caller = face("caller", manager=manager)

    with pytest.raises(ValueError, match="must not be empty"):
        face("", manager=manager)
    with pytest.raises(ValueError, match="must not be empty"):
        caller.connect("", 1, timeout=1)

    assert manager.names() == ["caller"]


@clause("QB-NAME-4")
def test_of_many_that_race_for_a_name_one_wins_and_works() -> None:
    """N threads, in every schedule: one gets the name, the others raise."""

    def program(run: Run) -> None:
        manager = BrokerManager()
        makers = [
            run.spawn(lambda: QueueBroker("b", manager=manager)) for _ in range(3)
        ]
        for maker in makers:
            maker.join()
        losers = [maker.error for maker in makers if maker.error is not None]
        [winner] = [maker.result for maker in makers if maker.error is None]

        assert [type(error) for error in losers] == [BrokerNameInUseError] * 2
        accept = run.spawn(winner.accept, 1)
        caller = QueueBroker("a", manager=manager)
        with caller.connect("b", 1, required=True) as right:
            accept.join()
            with accept.result as left:
                left.send(b"x")
                assert right.receive() == b"x"

    explore(program, bound=1, random=schedules(50), seed=1, limit=schedules(2000))


@clause("QB-NAME-4")
def test_a_refused_name_leaves_its_owner_untouched(manager: BrokerManager) -> None:
    """Calls that wait at the first broker keep waiting, and are matched."""
    b, a = (QueueBroker(name, manager=manager) for name in "ba")
    with Threads() as threads:
        accept = threads.start(b.accept, 1)
        connect = threads.start(a.connect, "b", 2)
        accepts_wait(b, {1: 1})
        connects_wait(b, {2: 1})

        for face in FACES:
            with pytest.raises(BrokerNameInUseError):
                face("b", manager=manager)

        assert (b.closed, b.waiting_accepts()) == (False, {1: 1})
        assert (b.waiting_connects(), a.outgoing()) == ({2: 1}, {("b", 2): 1})
        with a.connect("b", 1, required=True), b.accept(2):
            accept.result().disconnect()
            end = connect.result()
            assert end is not None
            end.disconnect()


@clause("QB-NAME-12")
def test_a_name_without_the_face_for_queues_is_unknown_to_them(
    manager: BrokerManager,
) -> None:
    """A connect for messages to a plain Broker returns None until it gets that face."""
    plain = Broker("b", manager=manager)
    caller = QueueBroker("a", manager=manager)

    assert caller.connect("b", 1, timeout=1) is None
    with pytest.raises(UnknownBrokerError):
        caller.connect("b", 1, required=True)

    face = QueueBroker(plain)
    left, right = meet(face, caller)
    with left, right:
        assert face.name == left.local_name == "b"


@clause("QB-NAME-12")
def test_the_two_faces_are_one_broker(manager: BrokerManager) -> None:
    """One name and one close serve both kinds, and either face accepts bytes."""
    face = QueueBroker("q", manager=manager)
    plain = Broker("b", manager=manager)
    for other in FACES:
        for name in "qb":
            with pytest.raises(BrokerNameInUseError):
                other(name, manager=manager)
    with pytest.raises(RendezvousTimeoutError):
        plain.connect("q", 1, timeout=0)
    with pytest.raises(ValueError, match="another manager"), BrokerManager() as other_:
        QueueBroker(plain, manager=other_)

    both = QueueBroker(plain, manager=manager)
    both.close()

    assert plain.closed
    assert manager.names() == ["q"]
    face.close()
    assert isinstance(face, QueueBroker)
    assert manager.names() == []
