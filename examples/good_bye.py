"""A last message and a disconnect: what either side observes, step by step.

Read it beside docs/explanation/hanging-up.md. It runs in one thread, because no call
blocks except the accept and the connect.
"""

from queuebroker import DisconnectedQueueError, MessageQueue, QueueBroker, Task

PORT = 1


def meet() -> tuple[MessageQueue, MessageQueue]:
    """Return both ends of one queue."""
    ends: list[MessageQueue] = []
    left, right = QueueBroker("left"), QueueBroker("right")
    task = Task(left, lambda: ends.append(left.accept(PORT)))
    task.start()
    far = right.connect("left", PORT, required=True)
    task.join()
    return ends[0], far


def main() -> None:
    left, right = meet()
    left.send(b"one last thing")
    left.send(b"good-bye")
    left.disconnect()
    print("left is", left.status.value)
    print("right is", right.status.value, "with", right.pending, "unread")

    right.send(b"wait!")  # left will not read it: dropped, and counted
    print("right dropped", right.stats().half_disconnected)

    for message in right:  # drains the earlier messages, then ends
        print("right received", message.decode())
    print("right is", right.status.value)

    try:
        right.send(b"hello?")
    except DisconnectedQueueError as error:
        print("right:", error)


if __name__ == "__main__":
    main()
