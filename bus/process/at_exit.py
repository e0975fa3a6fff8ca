"""`call_at_exit`: close the buses and journals that a program has left open.

The last registered function runs first, as in `atexit`, so that a bus is closed before
the journal that records it. By then Python has joined all non-daemon threads. So the
threads of a bus are daemons: otherwise Python would wait for them, and they for the
close.

A child that `multiprocessing` has started by a fork ends without `atexit`; the
finalizers of that module replace it there.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["call_at_exit", "do_not_call_at_exit"]

# Function -> the process that registered it, and its `multiprocessing` finalizer.
_finalizers: dict[Callable[[], object], tuple[int, Callable[[], object]]] = {}
_PRIORITY = 0  # any number: a child does not call a finalizer without one


def call_at_exit(function: Callable[[], object]) -> None:
    """Call a function when this process ends normally, before earlier ones."""
    atexit.register(function)
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process():
        finalizer = util.Finalize(None, function, exitpriority=_PRIORITY)
        _finalizers[function] = os.getpid(), finalizer.cancel


def do_not_call_at_exit(function: Callable[[], object]) -> None:
    """Undo `call_at_exit`; do nothing for a function that is not registered."""
    atexit.unregister(function)
    pid, cancel = _finalizers.pop(function, (0, int))
    if pid == os.getpid():  # a child has none of its parent's finalizers
        cancel()
