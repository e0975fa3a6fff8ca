"""A file sent in pieces and checked: the disconnect marks its end.

The receiver gets every piece that was sent before the disconnect, so it needs no
length and no end mark. But if the sender fails in the middle, ``with`` disconnects as
well, and the receiver cannot distinguish the two cases. Only the digest proves that the
content is complete.
"""

import hashlib
import sys
from pathlib import Path

from queuebroker import MessageQueue, QueueBroker, Task

PORT = 21
PIECE_BYTES = 4096


def send_file(queue: MessageQueue, path: Path) -> None:
    """Send the digest, then the content, then disconnect."""
    content = path.read_bytes()
    with queue:
        queue.send(hashlib.sha256(content).digest())
        for start in range(0, len(content), PIECE_BYTES):
            queue.send(content, start, min(PIECE_BYTES, len(content) - start))


def receive_file(queue: MessageQueue) -> bytes:
    """Receive until the sender has disconnected and no message is left."""
    digest = queue.receive()
    content = b"".join(queue)
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("the file was damaged on the way")
    return content


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
    archive = QueueBroker("archive")
    desk = QueueBroker("desk")

    def deliver() -> None:
        send_file(desk.connect("archive", PORT, required=True), path)

    task = Task(desk, deliver)
    task.start()
    with archive.accept(PORT) as queue:
        content = receive_file(queue)
    task.join()
    print(f"{path.name}: {len(content)} bytes, as they were sent")


if __name__ == "__main__":
    main()
