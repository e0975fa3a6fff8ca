"""An interrupt of the thread that posts messages from a link loses one at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus.kernel.tasks.actions import Post
from bus.model.message import Kind
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.messages import new_message
from tests.kit.serving import serve, settle
from tests.sockets.support import numbered
from tests.strikes import everywhere

if TYPE_CHECKING:
    from bus import Incoming
    from tests.strikes import Blow


@clause("BUS-MSG-15", "BUS-FLOW-2")
@pytest.mark.parametrize("sort", ["commands", "notifications"])
def test_an_interrupted_post_keeps_the_messages_behind_the_one_at_hand(
    sort: str,
) -> None:
    """Wherever the interrupt comes, none is delivered twice, and all in order."""
    with processes(2, PATIENT) as (near, far):
        got = list[bytes]()
        exchange = near._exchange
        source = far.register("news", thread=far.thread())._entry

        def read(message: Incoming) -> None:
            got.append(message.payload)

        def case(interrupted: Blow) -> None:
            got.clear()
            reader = near.register("reader", thread=near.here(), on_command=read)
            to: dict[str, Any] = {"_source": source, "_to": reader._entry, "_size": 1}
            if sort == "notifications":
                to["kind"] = Kind.NOTIFICATION
                to["subscriptions"] = (reader.subscribe("news", read),)
            items = [new_message(each, **to) for each in numbered(6)]
            exchange._todo.append(Post(reader._entry, [*items]))

            interrupted(exchange.act)

            exchange._todo.append(Post(reader._entry, [new_message(b"last", **to)]))
            exchange.act()
            serve(near, lambda: b"last" in got, "all is delivered")
            reader.deregister()
            settle(near)
            assert got == sorted({*got})
            assert len(got) >= 6

        everywhere(case, packages=(package,))
