"""`InprocRegistry`: the listeners and the waiting diallers of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.pattern import BusSocket
from bus.pattern.inproc import InprocConnection, InprocRegistry
from queuebroker import _sync
from tests.pattern.inproc_pairs import under_schedules
from tests.pattern.nodes import LIMIT_S

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_a_dialler_is_woken_by_a_later_listener() -> None:
    class Names(dict[str, Any]):
        """A table whose calls are steps of a schedule."""

        def __init__(self) -> None:
            self.step = _sync.Lock()

        def setdefault(self, *args: Any) -> Any:
            with self.step:
                return super().setdefault(*args)

        def get(self, *args: Any) -> Any:
            with self.step:
                return super().get(*args)

        def pop(self, *args: Any) -> Any:
            with self.step:
                return super().pop(*args)

    def program(run: Run) -> None:
        registry = InprocRegistry()
        registry._listeners = Names()  # type: ignore[misc]
        registry._waiting = Names()  # type: ignore[misc]
        end: Any = object()
        dialled: list[bool] = []

        def dial() -> None:
            dialled.append(registry.dial("n", end, dial))

        def accept(_: InprocConnection) -> bool:
            return True

        dialling = run.spawn(dial)
        registry.listen("n", accept)
        registry.stop("n")
        dialling.join()
        if True not in dialled:
            registry.listen("n", accept)
            assert True in dialled

    under_schedules(program)


def test_a_listener_that_closes_twice_leaves_the_next_one_alone() -> None:
    url = "inproc://twice"
    with BusSocket() as first, BusSocket() as second, BusSocket() as third:
        listener = first.listen(url)
        listener.close()
        second.listen(url)
        listener.close()
        third.dial(url)
        assert third.wait_for_peers(1, LIMIT_S)
