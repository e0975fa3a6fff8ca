"""Lines of the reference that several tables replace."""

from __future__ import annotations

__all__ = ["APPEND", "HANG_UP", "POP"]

APPEND = (
    "            self._peer._inbound.append(message)\n"
    "            self._changed.notify_all()\n"
)
POP = (
    "            message = self._inbound.popleft()\n"
    "            self._changed.notify_all()\n"
    "            return message\n"
)
HANG_UP = "        with self._changed:\n            if not self._closed:\n"
