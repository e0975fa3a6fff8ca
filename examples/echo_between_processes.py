"""Echo between two processes: one message there and back over TCP."""

import subprocess
import sys

from queuebroker.sockets import SocketQueueBroker

PORT = 7


def serve() -> None:
    """Send each message back, until the client disconnects."""
    # Not a path, since Windows has no UNIX sockets. Port 0: the system chooses one.
    with SocketQueueBroker("server", listen="tcp://127.0.0.1:0") as server:
        print(server.address, flush=True)
        with server.accept(PORT) as queue:
            for message in queue:
                queue.send(message)


def main() -> None:
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(  # noqa: S603  # itself
        command, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with (
            SocketQueueBroker("client") as client,
            client.connect(address, PORT, required=True) as queue,
        ):
            queue.send(b"is anybody there?")
            print(queue.receive().decode())


if __name__ == "__main__":
    if sys.argv[1:]:
        serve()
    else:
        main()
