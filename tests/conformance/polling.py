"""The reference with waits that poll, and are never woken."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tests.conformance.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Polling", "factory"]

LOOK_S = 0.03


class Polling(threading.Condition):
    """A condition that is never notified."""

    def wait_for(
        self, predicate: Callable[[], Any], timeout: float | None = None
    ) -> Any:
        """Poll until the predicate holds or the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = LOOK_S if end is None else min(LOOK_S, end - time.monotonic())
            if left <= 0:
                return predicate()
            self.release()
            try:
                time.sleep(left)
            finally:
                self.acquire()
        return result

    def notify_all(self) -> None:
        """Do nothing."""


_IMPORT = "from tests.conformance.polling import Polling\n"

factory = Fault(
    "nobody_is_ever_woken",
    [
        ("import threading\nfrom typing", f"import threading\n{_IMPORT}from typing"),
        ("import threading\nfrom coll", f"import threading\n{_IMPORT}from coll"),
        ("self.changed = threading.Condition()", "self.changed = Polling()"),
        ("right._changed = threading.Condition()", "right._changed = Polling()"),
    ],
    caught_by=[],
).factory()
