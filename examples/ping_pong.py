"""Ping-pong: two threads take turns over one queue; neither can run ahead."""

from queuebroker import MessageQueue, QueueBroker, Task

PORT = 1
ROUNDS = 5


def play(word: bytes, queue: MessageQueue, *, begins: bool) -> None:
    """Send a word, wait for the answer, and so on."""
    if begins:
        queue.send(word + b" 1")
    for answer in queue:
        count = int(answer.split()[1])
        print(answer.decode())
        if count == ROUNDS * 2:
            return
        queue.send(word + b" %d" % (count + 1))


def main() -> None:
    alice = QueueBroker("alice")
    bob = QueueBroker("bob")

    def accept() -> None:
        with alice.accept(PORT) as queue:
            play(b"ping", queue, begins=True)

    task = Task(alice, accept)
    task.start()
    with bob.connect("alice", PORT, required=True) as queue:
        play(b"pong", queue, begins=False)
    task.join()


if __name__ == "__main__":
    main()
