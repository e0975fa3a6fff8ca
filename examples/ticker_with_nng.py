"""A stock ticker: every member sees what the others send, and one of them is NNG's.

The exchange and the broker are sockets of this package. The display is a plain
socket of pynng (``pip install pynng``).
"""

import tempfile

import pynng  # type: ignore[import-untyped]

from bus.pattern import BusSocket

LIMIT_S = 30.0


def show(event: str, message: bytes) -> None:
    print(f"{event}: {message.decode()}")


with (
    tempfile.TemporaryDirectory() as folder,
    BusSocket() as exchange,
    BusSocket() as broker,
    pynng.Bus0(recv_timeout=int(LIMIT_S * 1000)) as display,
):
    # A full mesh: each member has a connection to each other one.
    exchange.listen(f"ipc://{folder}/exchange")
    broker.listen(f"ipc://{folder}/broker")
    broker.dial(f"ipc://{folder}/exchange")
    display.dial(f"ipc://{folder}/exchange", block=True)
    display.dial(f"ipc://{folder}/broker", block=True)
    exchange.wait_for_peers(2, LIMIT_S)
    broker.wait_for_peers(2, LIMIT_S)

    for trade in (b"ACME 17.20", b"ACME 17.35", b"BOLT 4.10"):
        exchange.send(trade)
    for _ in range(3):
        show("broker sees", broker.receive(LIMIT_S))
    for _ in range(3):
        show("display sees", display.recv())

    broker.send(b"buy 100 BOLT")
    show("exchange sees", exchange.receive(LIMIT_S))
    show("display sees", display.recv())

    display.send(b"display 7 is on")
    show("exchange sees", exchange.receive(LIMIT_S))
    show("broker sees", broker.receive(LIMIT_S))

    for peer in sorted(exchange.stats.peers, key=lambda peer: peer.is_native):
        kind = "of this package" if peer.is_native else "of another library"
        print(f"exchange: sent {peer.sent} messages to a peer {kind}")
