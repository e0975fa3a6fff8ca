"""A stock ticker: every member sees what the others send, and one of them is NNG's.

The exchange and the broker are sockets of this package. The display is a plain
socket of pynng (``pip install pynng``).
"""

import pynng  # type: ignore[import-untyped]

from bus.pattern import BusSocket

LIMIT_S = 30.0


def show(event: str, message: bytes) -> None:
    print(f"{event}: {message.decode()}")


with (
    BusSocket() as exchange,
    BusSocket() as broker,
    pynng.Bus0(recv_timeout=int(LIMIT_S * 1000)) as display,
):
    # A full mesh: each member has a connection to each other one.
    trades = exchange.listen("tcp://127.0.0.1:0")
    orders = broker.listen("tcp://127.0.0.1:0")
    broker.dial(trades.url)
    display.dial(trades.url, block=True)
    display.dial(orders.url, block=True)
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
