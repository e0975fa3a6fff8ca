"""Echo: one server, one client, one message there and back."""

from queuebroker import QueueBroker, Task

PORT = 7


def serve(server: QueueBroker) -> None:
    """Send each message back, until the client disconnects."""
    with server.accept(PORT) as queue:
        for message in queue:
            queue.send(message)


def main() -> None:
    server = QueueBroker("server")
    client = QueueBroker("client")
    task = Task(server, serve, server)
    task.start()
    with client.connect("server", PORT, required=True) as queue:
        queue.send(b"is anybody there?")
        print(queue.receive().decode())
    task.join()


if __name__ == "__main__":
    main()
