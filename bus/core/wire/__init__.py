"""The wire protocol: the frames between processes of a bus, as bytes and as objects.

General layout: `version` negotiates the protocol version of a link, `parts` has the
building blocks of frames, and `frames` numbers the types. Each control frame has a
struct: frames about the link in `link_frames`, about tasks in `task_frames`, about
messages in `stream_frames`. Messages are in `batch`, and a single one is in `single`.
`codec` converts all of these to bytes and back. The clauses are in specs/bus-wire.md.

Nothing here depends on a link or its state: other modules decide whether a frame may
arrive now.
"""

from bus.core.wire.batch import (
    BATCH_BYTES_MAX,
    FAILED,
    FOLLOWS_MIN,
    FRAME_BYTES_MAX,
    LEASED,
    MESSAGES_MAX,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
)
from bus.core.wire.codec import CONTROL_BYTES_MAX, OPTIONAL, Frame, decode, encode
from bus.core.wire.frame_reader import FrameReader, pieces
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.lengths import Bodies, Lengths
from bus.core.wire.link_frames import (
    Bye,
    ConnectOffer,
    Error,
    Hello,
    Ping,
    Pong,
    Refused,
    Welcome,
)
from bus.core.wire.parts import (
    Characteristics,
    Identity,
    LinkKind,
    Overflow,
    Reason,
    RequestId,
    Role,
)
from bus.core.wire.single import decode_single, encode_single
from bus.core.wire.stream_frames import Ack, Descriptor, OpenStream, Release
from bus.core.wire.task_frames import (
    AddRelay,
    Cancel,
    Dismiss,
    Dismissed,
    Eliminate,
    Export,
    Gap,
    Search,
    Subscribe,
    Unexport,
    Unrelay,
    Unsubscribe,
)
from bus.core.wire.version import VERSIONS, negotiate

__all__ = [  # noqa: RUF022  # grouped by module
    # version
    "VERSIONS",
    "negotiate",
    # parts
    "Characteristics",
    "Identity",
    "LinkKind",
    "Overflow",
    "Reason",
    "RequestId",
    "Role",
    # frames
    "ControlFrame",
    "FrameType",
    # lengths
    "Bodies",
    "Lengths",
    # link_frames
    "Bye",
    "ConnectOffer",
    "Error",
    "Hello",
    "Ping",
    "Pong",
    "Refused",
    "Welcome",
    # task_frames
    "AddRelay",
    "Cancel",
    "Dismiss",
    "Dismissed",
    "Eliminate",
    "Export",
    "Gap",
    "Search",
    "Subscribe",
    "Unexport",
    "Unrelay",
    "Unsubscribe",
    # stream_frames
    "Ack",
    "Descriptor",
    "OpenStream",
    "Release",
    # frame_reader
    "FrameReader",
    "pieces",
    # batch
    "BATCH_BYTES_MAX",
    "FAILED",
    "FOLLOWS_MIN",
    "FRAME_BYTES_MAX",
    "LEASED",
    "MESSAGES_MAX",
    "NO_DEADLINE",
    "RAW",
    "WANTS_REPLY",
    "Batch",
    "Run",
    # single
    "decode_single",
    "encode_single",
    # codec
    "CONTROL_BYTES_MAX",
    "OPTIONAL",
    "Frame",
    "decode",
    "encode",
]
