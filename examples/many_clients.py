"""Many clients of one server: a thread for each connection, one shared counter."""

from collections import Counter

from queuebroker import BrokerClosedError, MessageQueue, QueueBroker, Task

PORT = 80
CLIENTS = 5


def answer(queue: MessageQueue, visits: Counter[str]) -> None:
    """Serve one client until it disconnects."""
    with queue:
        for name in queue:
            # Only this thread writes this client's entry, so there is no race.
            visits[name.decode()] += 1
            queue.send(b"welcome, " + name)


def serve(server: QueueBroker, visits: Counter[str]) -> None:
    """Accept clients until the server is closed, then wait for their threads."""
    tasks = []
    for queue in server.accept_iter(PORT):
        task = Task(server, answer, queue, visits)
        task.start()
        tasks.append(task)
    for task in tasks:
        task.join()


def visit(client: QueueBroker) -> None:
    """Send the client's name three times."""
    with client.connect("server", PORT, required=True) as queue:
        for _ in range(3):
            queue.send(client.name.encode())
            assert queue.receive() == b"welcome, " + client.name.encode()


def main() -> None:
    visits: Counter[str] = Counter()
    server = QueueBroker("server")
    serving = Task(server, serve, server, visits)
    serving.start()
    clients = [QueueBroker(f"client-{number}") for number in range(CLIENTS)]
    tasks = [Task(client, visit, client) for client in clients]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    server.close()  # ends accept_iter(); open connections stay open
    serving.join()
    for name, count in sorted(visits.items()):
        print(f"{name} came {count} times")
    try:
        server.accept(PORT)
    except BrokerClosedError as error:
        print(error)


if __name__ == "__main__":
    main()
