"""Print the vectors as they are encoded now."""

from __future__ import annotations

from bus.kernel.wire import encode
from tests.kernel.golden import FRAMES

for name, frame in FRAMES.items():
    print(name, encode(frame).hex())
