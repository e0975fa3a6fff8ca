"""Objects instead of bytes: a thermometer sends readings, a station takes the mean.

The thermometer also sends a line of text, as a program from before the change would do.
The station gets an error for that message, and continues.
"""

import msgspec

from queuebroker import PayloadError, QueueBroker, Task

PORT = 1


class Reading(msgspec.Struct):
    sensor: str
    celsius: float


def collect(station: QueueBroker) -> list[Reading]:
    """Receive readings until the sender disconnects; print other messages."""
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
    """Send three readings, and one message of another type."""
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
