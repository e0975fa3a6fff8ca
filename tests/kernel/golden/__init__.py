"""Golden vectors of the wire: a frame of each type, and its bytes.

`VECTORS` is read from ``wire.txt``: one name and its hex per line. The bytes change
only for a reason, and together with the version once machines are joined. Then
``python -m tests.kernel.golden > tests/kernel/golden/wire.txt`` rewrites them.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.features.memory.frames import CloseSlab, OfferSlab, Release, SlabAnswer
from bus.features.subscriptions.frames import Subscribe, Unexport, Unsubscribe
from bus.kernel import wire
from bus.model.message import Kind
from bus.model.payload import encode
from bus.model.registration import RegistrationId, Visibility

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FILE", "FRAMES", "VECTORS", "name_of"]

FILE: Final = Path(__file__).with_name("wire.txt")

_IDENTITY: Final = wire.Identity(
    bus="bus1",
    machine="alpha",
    machine_id="6f1d0c3a",
    process="p4711",
    process_id=4711,
    incarnation=2**63 + 5,
    role=wire.Role.SLAVE,
)
_F: Final = RegistrationId("alpha", "p4711", 3)
_SENDER: Final = wire.Characteristics(
    relay=7,
    id=RegistrationId("beta", "p12", 300),
    name="floor/lamp",
    visibility=Visibility.PRIVATE,
    incarnation=99,
)
_TASK: Final = wire.Characteristics(
    relay=2**32 - 1, id=_F, name="f", incarnation=2**63 + 5, overflow="block"
)
_REQUEST: Final = wire.RequestId(machine="beta", process="p12", number=70_000)
_SEARCH: Final = wire.Search(
    id=_REQUEST,
    machine="alpha",
    name="f",
    sender=_SENDER,
    hops=3,
    milliseconds_left=5000,
)

# If a type has several frames, the name distinguishes them.
FRAMES: Final[Mapping[str, wire.Frame]] = MappingProxyType(
    {
        "HELLO": wire.Hello(
            versions=(1, 3),
            identity=_IDENTITY,
            kind=wire.LinkKind.SIGNALLING,
            message_bytes_max=16 * 2**20,
        ),
        "WELCOME": wire.Welcome(
            version=1, identity=_IDENTITY, message_bytes_max=16 * 2**20
        ),
        "REFUSED": wire.Refused(
            reason=wire.Reason.VERSION, text="too old", versions=(2, 2)
        ),
        "OPEN_STREAM": wire.OpenStream(
            epoch=2**64 - 1, nonce=12, incarnation=5, first=1, window=4096
        ),
        # On a link that replaces a lost one: states how much had arrived.
        "OPEN_STREAM again": wire.OpenStream(
            epoch=18,
            nonce=12,
            incarnation=5,
            first=40,
            window=4096,
            known=17,
            last=2**40,
            controls=300,
        ),
        "EXPORT": wire.Export(id=_F, name="f", registered_ns=10**12),
        "EXPORT asks": wire.Export(id=_F, name="f", registered_ns=10**12, asks=True),
        "UNEXPORT": Unexport(id=_F),
        "SEARCH": _SEARCH,
        "SEARCH anywhere": replace(_SEARCH, hops=2, anywhere=True),
        "CANCEL": wire.Cancel(id=_REQUEST),
        "ADD_RELAY": wire.AddRelay(
            task=_TASK,
            search=_REQUEST,
            addresses=("unix:/run/bus1/Slave4711.1", "tcp:10.77.0.1:7000"),
        ),
        "ADD_RELAY here": wire.AddRelay(task=_TASK),
        "UNRELAY": wire.Unrelay(relay=7, extracted=41),
        "UNRELAY more": wire.Unrelay(relay=7, extracted=0, final=True, more=True),
        "DISMISS": wire.Dismiss(relay=7),
        "DISMISSED": wire.Dismissed(relay=7),
        "GAP": wire.Gap(relay=7, count=2**40),
        "ELIMINATE": wire.Eliminate(id=_F, name="f", final=True),
        "SUBSCRIBE": Subscribe(
            id=_REQUEST,
            specification="ism://alpha/floor/**",
            subscriber=_SENDER,
            hops=2,
        ),
        "UNSUBSCRIBE": Unsubscribe(id=_REQUEST),
        "MSG": wire.Batch(
            epoch=17,
            incarnation=2**63 + 5,
            floor=2**40 - 2,
            first=2**40,
            runs=[
                wire.Run(
                    to=7,
                    source=3,
                    kind=Kind.COMMAND,
                    flags=wire.WANTS_REPLY,
                    id=2**64 - 1,
                    milliseconds_left=10_000,
                    hop=0,
                    bodies=[encode(("add", 1, 2.5))],
                ),
            ],
        ),
        "MSG two runs": wire.Batch(
            epoch=17,
            incarnation=2**63 + 5,
            floor=2**40 - 2,
            first=2**40,
            runs=[
                wire.Run(
                    to=0,
                    source=3,
                    kind=Kind.NOTIFICATION,
                    flags=0,
                    id=9,
                    milliseconds_left=wire.NO_DEADLINE,
                    hop=1,
                    bodies=[encode("lit"), encode(None), encode(70_000)],
                ),
                wire.Run(
                    to=7,
                    source=2**32 - 1,
                    kind=Kind.NOTIFICATION_RESPONSE,
                    flags=wire.FAILED,
                    id=1,
                    milliseconds_left=wire.NO_DEADLINE,
                    hop=255,
                    bodies=[b""],
                ),
            ],
        ),
        "MSG raw": wire.Batch(
            epoch=17,
            incarnation=5,
            floor=40,
            first=41,
            runs=[
                wire.Run(
                    to=7,
                    source=3,
                    kind=Kind.COMMAND,
                    flags=wire.RAW | wire.WANTS_REPLY,
                    id=2,
                    milliseconds_left=2**32 - 2,
                    hop=0,
                    bodies=[b"\xc1 as it stands", b"", b"\x00"],
                ),
            ],
            acknowledged=2**40,
            extracted=2**40 - 3,
        ),
        # A recorded message, which journals identify by its number.
        "MSG recorded": wire.Batch(
            epoch=17,
            incarnation=5,
            floor=41,
            first=41,
            runs=[
                wire.Run(
                    to=7,
                    source=3,
                    kind=Kind.COMMAND,
                    flags=0,
                    id=0,
                    milliseconds_left=wire.NO_DEADLINE,
                    hop=0,
                    bodies=[encode(None)],
                    mid=2**63 + 9,
                ),
            ],
        ),
        "MSG floor": wire.Batch(1, 2, 5, 5, []),
        "ACK": wire.Ack(
            epoch=17,
            incarnation=5,
            last=2**40,
            missing=((9, 12), (300, 70_000)),
            extracted=((7, 8), (9, 2**40 - 1)),
        ),
        "ACK all": wire.Ack(epoch=17, incarnation=5, last=2**64 - 1),
        "ACK heard": wire.Ack(epoch=17, incarnation=5, last=0, controls=2**33),
        "RELEASE": Release(leases=((1, 900), (2, 2**33))),
        "OFFER_SLAB": OfferSlab(slab=3, descriptor=17, token="bus-0a1b"),
        "SLAB_ANSWER": SlabAnswer(slab=3, mapped=True),
        "CLOSE_SLAB": CloseSlab(slab=2**33),
        "CONNECT_OFFER": wire.ConnectOffer(
            machine="beta",
            process="p12",
            incarnation=99,
            addresses=("tcp:10.77.0.2:7001",),
        ),
        "ERROR": wire.Error(reason=wire.Reason.NAME_TAKEN, text="f", id=_F),
        "ERROR request": wire.Error(reason=wire.Reason.ACCESS, request=_REQUEST),
        "ERROR message": wire.Error(reason=wire.Reason.BUSY, text="no", message=2**33),
        "ERROR absent": wire.Error(reason=wire.Reason.ABSENT, request=_REQUEST),
        "PING": wire.Ping(number=1),
        "PONG": wire.Pong(number=1),
        "BYE": wire.Bye(),
        "BYE busy": wire.Bye(reason=wire.Reason.BUSY, text="no room: \N{SNOWMAN}"),
    }
)


def name_of(frame: wire.Frame) -> str:
    """Return the name of a frame's type."""
    return frame.type.name


VECTORS: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        name: bytes.fromhex(data)
        for name, _, data in (
            line.rpartition(" ") for line in FILE.read_text("ascii").splitlines()
        )
    }
)
