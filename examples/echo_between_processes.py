"""Echo between two processes: one message there and back over a UNIX socket."""

import subprocess
import sys
import tempfile

from queuebroker.sockets import SocketQueueBroker

PORT = 7


def serve(address: str) -> None:
    """Send each message back, until the client disconnects."""
    with SocketQueueBroker("server", listen=address) as server:
        print("listening", flush=True)
        with server.accept(PORT) as queue:
            for message in queue:
                queue.send(message)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/echo"
        command = [sys.executable, __file__, address]
        with subprocess.Popen(  # noqa: S603  # itself
            command, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            server.stdout.readline()  # the server listens now
            with (
                SocketQueueBroker("client") as client,
                client.connect(address, PORT, required=True) as queue,
            ):
                queue.send(b"is anybody there?")
                print(queue.receive().decode())


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(sys.argv[1])
    else:
        main()
