"""`refuse_green_threads`: refuse a process that gevent or eventlet has patched.

Both replace threads, sockets and polling in the whole process. Then a thread that waits
in a real `epoll`, or for a lock that a real thread has to release, blocks every
greenlet of the process forever.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["refuse_green_threads"]

# By library: the module that patches, its query, and the patches that matter.
_PATCHERS: Final = {
    "gevent": (
        *("gevent.monkey", "is_module_patched"),
        ("threading", "_thread", "select", "socket"),
    ),
    "eventlet": (
        *("eventlet.patcher", "is_monkey_patched"),
        ("thread", "select", "socket"),
    ),
}


def refuse_green_threads() -> None:
    """Raise if threads, sockets or polling of this process were replaced.

    Raises:
        RuntimeError: the text names the library and the remedy.
    """
    for library, (patcher, question, names) in _PATCHERS.items():
        # Do not import it: a library that is not loaded has patched nothing.
        is_patched = getattr(sys.modules.get(patcher), question, None)
        replaced = [name for name in names if is_patched and is_patched(name)]
        if replaced:
            msg = (
                f"cannot use a bus or queuebroker.sockets: {library} has replaced"
                f" {', '.join(replaced)} in this process, and both need the threads"
                f" and sockets of the system; use them in a process that {library}"
                " has not patched"
            )
            raise RuntimeError(msg)
