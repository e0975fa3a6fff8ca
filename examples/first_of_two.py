"""One thread serves two queues: the first message of either, in turns."""

from queuebroker import DisconnectedQueueError, QueueBroker, Task, receive_any


def write(author: QueueBroker, letters: list[str]) -> None:
    """Send some letters, and disconnect."""
    with author.connect("office", 1, required=True) as queue:
        queue.send_many([letter.encode() for letter in letters])


def main() -> None:
    office = QueueBroker("office")
    queues = []
    for name, letters in {"ann": ["rent", "tax", "love"], "bob": ["bill"]}.items():
        author = QueueBroker(name)
        task = Task(author, write, author, letters)
        task.start()
        queues.append(office.accept(1))
        task.join()  # all letters have arrived, so the output does not vary
    try:
        while True:
            queue, letter = receive_any(queues)
            print(f"{queue.remote_name}: {letter.decode()}")
    except DisconnectedQueueError:
        print("everybody has hung up")


if __name__ == "__main__":
    main()
