"""Objects instead of bytes: thermometers send readings, a station takes the mean.

One of them also sends a line of text, as a program from before the change would do.
The station is told of it, and goes on.
"""

import msgspec

from queuebroker import PayloadError, QueueBroker, Task

PORT = 1


class Reading(msgspec.Struct):
    sensor: str
    celsius: float


def collect(station: QueueBroker) -> list[Reading]:
    """Take readings until the thermometer hangs up; print what is none."""
    taken: list[Reading] = []
    with station.accept(PORT).of(Reading) as readings:
        while not readings.disconnected():
            try:
                for reading in readings:
                    taken.append(reading)  # noqa: PERF402 # kept if the next one is bad
            except PayloadError as error:
                print("no reading:", error.payload.decode())
    return taken


def measure(sensor: QueueBroker) -> None:
    """Send three readings, and one thing that is none."""
    with sensor.connect("station", PORT, required=True) as queue:
        readings = queue.of(Reading)
        readings.send(Reading(sensor.name, 21.0))
        queue.send(b"roof 21.7")  # the end and its typed face, side by side
        readings.send_many([Reading(sensor.name, 22.0), Reading(sensor.name, 24.5)])


def main() -> None:
    station = QueueBroker("station")
    roof = QueueBroker("roof")
    task = Task(roof, measure, roof)
    task.start()
    taken = collect(station)
    task.join()
    mean = sum(reading.celsius for reading in taken) / len(taken)
    print(f"{taken[0].sensor}: {len(taken)} readings, {mean} degrees on average")


if __name__ == "__main__":
    main()
