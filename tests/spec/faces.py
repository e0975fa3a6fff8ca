"""The two faces of a broker: shared by channels and by queues of messages."""

from __future__ import annotations

import pytest

from queuebroker import Broker, QueueBroker

__all__ = ["FACES", "Face", "both_faces"]

Face = type[Broker] | type[QueueBroker]
FACES: list[Face] = [Broker, QueueBroker]
both_faces = pytest.mark.parametrize("face", FACES)
