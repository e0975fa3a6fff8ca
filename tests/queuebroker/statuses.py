"""The statuses of the model of a connection, mapped to those of the library."""

from __future__ import annotations

from queuebroker import Status
from specs.models import connection

__all__ = ["STATUS_OF"]

STATUS_OF = {
    connection.Status.CONNECTED: Status.CONNECTED,
    connection.Status.HALF: Status.HALF_DISCONNECTED,
    connection.Status.DISCONNECTED: Status.DISCONNECTED,
}
