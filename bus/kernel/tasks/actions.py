"""Actions: a process manager decides on them, and its driver performs them.

The driver performs them in order, after it has released the exchange's lock.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Any, TypeAlias

from msgspec import Struct

from bus.errors import BusError
from bus.kernel.tasks.routing_table import Entry
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.wire import Frame, LinkKind
from bus.model.address import Address
from bus.model.message import Incoming
from bus.model.registration import Key

__all__ = [
    "Action",
    "ActionQueue",
    "Answer",
    "Confirm",
    "Dial",
    "Evict",
    "Fail",
    "FeatureAction",
    "HangUp",
    "Open",
    "Post",
    "Resume",
    "Send",
    "Settled",
    "Vacate",
]


class Open(Struct, frozen=True):
    """Let a new registration receive, first the messages that waited for its name.

    Until then messages posted to it wait in its mailbox, so that none overtakes.
    """

    entry: Entry
    messages: tuple[Incoming, ...]


class Fail(Struct, frozen=True):
    """Report to the sender that its message has failed or is in doubt."""

    message: Incoming
    error: BusError


class FeatureAction(Struct):
    """An action that a feature defines; the driver calls its performer."""


# Actions that occur only if there are other processes.


class Post(Struct, frozen=True):
    """Post messages that came over a link to a task of this process, in order."""

    entry: Entry
    messages: list[Incoming | InboundRun]


class Resume(Struct, frozen=True):
    """Deliver held-back messages to a task of this process that has room again.

    No manager requests this; the holder of the messages does, to get its turn.
    """

    entry: Entry


class Answer(Struct, eq=False):
    """Deliver the outcome of a question to the asker, a task of this process.

    It is also what lies in the mailbox of that task: see `bus.process.mailbox`.

    number: the number of the asker's question.
    responder: the address of the answering task; None if no task answered.
    payload, error: the answer, or the reason why there is none.
    final: False for one of several answers to a notification.
    _trace: the trace, as in a message; None if nothing is recorded.
    """

    _to: Any
    number: int
    responder: Address | None
    payload: Any = None
    error: BusError | None = None
    final: bool = True
    _trace: Any = None
    _account: None = None


class Vacate(Struct):
    """Take out the messages of a relay that is no longer found.

    The driver returns them by `ProcessManager.on_emptied`, in order with all other
    messages posted to the relay.

    done: True once the driver has done so. After an interrupt the same object may come
      to it again.
    """

    entry: Entry
    messages: tuple[Incoming, ...]
    final: bool = False
    done: bool = False


class Evict(Struct, frozen=True):
    """Deregister a task whose name belongs to another task, with an error (OPEN-3)."""

    entry: Entry
    error: BusError


class Confirm(Struct, frozen=True):
    """Report to a task that the master accepts its name (OPEN-3)."""

    entry: Entry


class Settled(Struct, frozen=True):
    """Call the function that a thread passed for the confirmation of its request.

    The driver may call it again after an interrupt.
    """

    callback: Callable[[], object]


class Send(Struct, frozen=True):
    """Put a frame on a link, behind all frames put there before."""

    link: int
    frame: Frame


class Dial(Struct, frozen=True):
    """Dial a process; report `RemoteManager.on_link_dialled` or `on_dial_failed`.

    key: the process to dial; if its name is empty, the master of that machine.
    """

    key: Key
    kind: LinkKind
    addresses: tuple[str, ...]


class HangUp(Struct, frozen=True):
    """Close a link, behind all frames sent on it; its loss is not reported."""

    link: int


Action = (
    Open
    | Fail
    | Post
    | Resume
    | Answer
    | Vacate
    | Evict
    | Confirm
    | Settled
    | Send
    | Dial
    | HangUp
    | FeatureAction
)

# Takes the actions of a decision as they are decided: it outlasts an interrupt.
ActionQueue: TypeAlias = "MutableSequence[Action]"
