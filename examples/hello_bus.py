"""Hello, bus: one task, one command; the call is the same wherever the task lives."""

from typing import Any

from bus import open_bus

with open_bus() as bus:

    @bus.task("adder")  # without thread=: the bus's own default thread
    def adder(message: Any) -> int:
        return sum(message.payload)  # the return value is the answer

    print(bus.call("adder", [1, 2, 3]))
