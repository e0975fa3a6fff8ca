"""Several tasks in one process: two counters sell the seats that a third task manages.

Each lives in a thread of its own, and customers arrive at the same time. Only one task
changes the list of free seats, so there is no lock, and no seat is sold twice.
"""

from threading import Thread
from typing import Any

from bus import NOREPLY, Bus, Incoming, RemoteError, Response, open_bus

SEATS = 5
COUNTERS = ("counter/north", "counter/south")
CUSTOMERS = 4  # at each counter


def open_hall(bus: Bus) -> None:
    """Register the task that holds the list of free seats."""
    left = list(range(1, SEATS + 1))

    @bus.task("seats", thread=bus.thread("hall"))
    def take_seat(_: Incoming) -> int | None:
        return left.pop(0) if left else None


def open_counter(bus: Bus, name: str) -> None:
    """Register a task that sells seats and notifies its subscribers of each sale."""
    counter = bus.register(name, thread=bus.thread(name))

    def sell(customer: Incoming) -> Any:
        def taken(response: Response) -> None:
            if response.payload is None:
                customer.respond(error="sold out")
            else:
                counter.notify(response.payload)
                customer.respond(response.payload)

        counter.command("seats", on_response=taken)
        return NOREPLY  # answers later; until then it serves other customers

    counter.on_command(sell)


def buy(bus: Bus, counter: str, bought: list[int], came_late: list[str]) -> None:
    """Act as a customer: call a counter, and wait for the answer."""
    try:
        bought.append(bus.call(counter))
    except RemoteError:
        came_late.append(counter)


def main() -> None:
    bought: list[int] = []
    came_late: list[str] = []
    shown: list[int] = []
    with open_bus("theatre") as bus:
        open_hall(bus)
        for name in COUNTERS:
            open_counter(bus, name)
        display = bus.register("display")
        display.subscribe("counter/*", lambda message: shown.append(message.payload))
        customers = [
            Thread(target=buy, args=(bus, name, bought, came_late))
            for name in COUNTERS * CUSTOMERS
        ]
        for customer in customers:
            customer.start()
        for customer in customers:
            customer.join()
    print("seats sold:", *sorted(bought))
    print("on display:", *sorted(shown))
    print(len(came_late), "customers came too late")


if __name__ == "__main__":
    main()
