"""Two partial buses, joined by a device: a message crosses it once, to the other side.

Within each side the nodes have connections of their own. The device does not send a
message back into the side that it came from.
"""

from contextlib import ExitStack

from bus.pattern import BusSocket, RawBusSocket, device

LIMIT_S = 30.0
DRAWING = """\
  ann     bob                cem     dee
   |       |                  |       |
===+=======+===[ device ]=====+=======+===
     left                       right
"""


def open_side(stack: ExitStack, names: list[str], end: RawBusSocket) -> list[BusSocket]:
    """Open the nodes of one side: a full mesh, and each with the end of the device."""
    nodes = []
    for number, name in enumerate(names):
        node = stack.enter_context(BusSocket())
        node.listen(f"inproc://{name}")
        for earlier in names[:number]:
            node.dial(f"inproc://{earlier}")
        end.dial(f"inproc://{name}")
        nodes.append(node)
    for node in nodes:
        node.wait_for_peers(len(names), LIMIT_S)  # the others, and the device
    return nodes


print(DRAWING)
sides = [["ann", "bob"], ["cem", "dee"]]
with ExitStack() as stack:
    ends = [stack.enter_context(RawBusSocket()) for _ in sides]
    nodes: dict[str, BusSocket] = {}
    for names, end in zip(sides, ends, strict=True):
        nodes.update(zip(names, open_side(stack, names, end), strict=True))
    with device(*ends):
        for name, node in nodes.items():
            node.send(name.encode())
        for name, node in nodes.items():
            senders = sorted(node.receive(LIMIT_S).decode() for _ in range(3))
            print(f"{name} receives from {', '.join(senders)}")
        for end, side in zip(ends, ("left", "right"), strict=True):
            arrived = sum(peer.arrived for peer in end.stats.peers)
            print(f"the device received {arrived} messages from the {side}")
    surplus = sum(node.stats.received_queued for node in nodes.values())
    print(f"messages that arrived twice: {surplus}")
