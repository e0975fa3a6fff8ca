"""A service between producers and readers, which do not know each other.

Stations send each reading to the service as a command, and it notifies its subscribers
of each. Stations and subscribers may come and go without a change to the others.
"""

from threading import Thread
from typing import Any

from bus import Bus, Incoming, Service, open_bus

READINGS = {"north": [18, 19, 31], "south": [24, 33, 26]}
WARM = 30


def with_fahrenheit(message: Incoming) -> Any:
    """Return the notification for a station's reading."""
    return {**message.payload, "fahrenheit": message.payload["celsius"] * 9 / 5 + 32}


def measure(bus: Bus, station: str) -> None:
    """Act as a producer: send each reading to the service."""
    for celsius in READINGS[station]:
        bus.command("weather", {"station": station, "celsius": celsius})


def main() -> None:
    alarms: list[str] = []

    def look(message: Incoming) -> None:
        if message.payload["celsius"] > WARM:
            alarms.append(f"{message.payload['station']} {message.payload['celsius']}")

    with open_bus() as bus, Service(bus, "weather", transform=with_fahrenheit):
        # Two readers: a task with a callback, and this thread, which iterates.
        bus.register("guard").subscribe("weather", look)
        heard = bus.listen("weather")
        stations = [Thread(target=measure, args=(bus, name)) for name in READINGS]
        for station in stations:
            station.start()
        expected = sum(map(len, READINGS.values()))
        log = [next(heard).payload for _ in range(expected)]
        for station in stations:
            station.join()
    # The readings of one station keep their order; the two stations interleave.
    for name in READINGS:
        print(name, *(each["fahrenheit"] for each in log if each["station"] == name))
    print("too warm:", ", ".join(sorted(alarms)))


if __name__ == "__main__":
    main()
