"""The wire protocol: the frames between processes of a bus, as bytes and as objects.

parts, lengths  the building blocks of frames
frames          the types, by number, and the control frames
batch           messages, together or alone
codec           from the data of a link to frames, and back

Nothing here depends on a link or its state: other modules decide whether a frame may
arrive now. The clauses are in specs/bus-wire.md.

The frames of a feature are in its folder: `bus.features.subscriptions.frames`,
`bus.features.memory.frames`.
"""

from bus.kernel.wire.batch import (
    BATCH_BYTES_MAX,
    FAILED,
    FOLLOWS,
    FOLLOWS_MIN,
    FRAME_BYTES_MAX,
    HEAD_BYTES,
    LEASED,
    LOCATION_BYTES,
    MESSAGES_MAX,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
    decode_single,
    encode_located,
    encode_single,
    ends_head,
    read_single,
    stream_head,
)
from bus.kernel.wire.codec import (
    CONTROL_BYTES_MAX,
    OPTIONAL,
    Frame,
    FrameReader,
    decode,
    encode,
    long_body,
    pieces,
)
from bus.kernel.wire.frames import (
    Ack,
    AddRelay,
    Bye,
    Cancel,
    ConnectOffer,
    ControlFrame,
    Dismiss,
    Dismissed,
    Eliminate,
    Error,
    Export,
    FrameType,
    Gap,
    Hello,
    OpenStream,
    Ping,
    Pong,
    Refused,
    Search,
    Unrelay,
    Welcome,
)
from bus.kernel.wire.lengths import Bodies, Lengths
from bus.kernel.wire.parts import (
    ADDRESS_MAX,
    TEXT_MAX,
    VERSIONS,
    Characteristics,
    Identity,
    LinkKind,
    Overflow,
    Reason,
    RequestId,
    Role,
    negotiate,
)

__all__ = [  # noqa: RUF022  # grouped by module
    # version
    "VERSIONS",
    "negotiate",
    # parts
    "ADDRESS_MAX",
    "TEXT_MAX",
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
    "Unrelay",
    # stream_frames
    "Ack",
    "OpenStream",
    # frame_reader
    "FrameReader",
    "long_body",
    "pieces",
    # batch
    "BATCH_BYTES_MAX",
    "FAILED",
    "FOLLOWS",
    "FOLLOWS_MIN",
    "FRAME_BYTES_MAX",
    "LEASED",
    "LOCATION_BYTES",
    "MESSAGES_MAX",
    "NO_DEADLINE",
    "RAW",
    "WANTS_REPLY",
    "Batch",
    "Run",
    # single
    "HEAD_BYTES",
    "decode_single",
    "encode_located",
    "encode_single",
    "ends_head",
    "read_single",
    "stream_head",
    # codec
    "CONTROL_BYTES_MAX",
    "OPTIONAL",
    "Frame",
    "decode",
    "encode",
]
