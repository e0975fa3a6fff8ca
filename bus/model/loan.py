"""`Loan`: a buffer in which a task writes one message, so that it need not be copied.

Its bytes are shared memory if they can be, and memory of the process otherwise. This
module decides on neither, and depends on no bus: the buffer is an argument.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, Self

from bus.errors import PayloadError
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Loan"]


class Loan(Uncopyable):
    """A buffer for one message, which `Task.loan` returns (MC-41).

    Write into `buffer`, then send the loan itself as the payload: with `Task.notify`,
    `Task.command`, `Task.call` or `Incoming.respond`. The message is not copied on its
    way into shared memory. A loan is sent once, alone, and in its ``with`` block. If it
    is not sent, nothing is, and its memory is free after the block.

    nbytes: the length of the message, in bytes.
    """

    __slots__ = ("_pid", "_shared", "_state", "_task", "_views", "nbytes")

    _in_place_of_copy: ClassVar[str] = "send it as the payload of a message"

    def __init__(self, task: str, view: memoryview, *, shared: bool) -> None:
        self.nbytes: Final = len(view)
        self._task: Final = task
        self._shared: Final = shared
        self._pid: Final = os.getpid()
        self._state = "open"
        # Empty once it was sent or has ended: of two threads one takes the view.
        self._views: Final = [view]

    def __repr__(self) -> str:
        """Return the text by which errors name it."""
        return f"<Loan of {self.nbytes} bytes by task {self._task!r}: {self._state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._views:
            self._take("ended")

    @property
    def buffer(self) -> memoryview:
        """The bytes of the message, writable.

        The view is released when the loan is sent, and at the end of the block. An
        array that was made from it remains: it must not be written after the send,
        since recipients read the same bytes.

        Raises:
            ValueError: the loan was sent, or has ended.
        """
        try:
            return self._views[0]
        except IndexError:
            raise ValueError(f"cannot write {self!r}: {self._why()}") from None

    def _why(self) -> str:
        if self._state == "sent":
            return "it was sent; take another one for the next message: task.loan()"
        return "its block has ended; write and send it inside the block"

    def _take(self, state: str) -> memoryview:
        """End the writing; return the bytes, read-only.

        Raises:
            IndexError: that was done.
        """
        view = self._views.pop()
        self._state = state
        content = view.toreadonly()
        with suppress(BufferError):  # an array made from it is left
            view.release()
        return content

    def _send(self) -> bytes | memoryview:
        """Return the frozen payload, and close the buffer for its writer.

        Raises:
            PayloadError: it was sent, has ended, or is of the parent of this process.
        """
        if os.getpid() != self._pid:
            fact = f"{self!r} is of process {self._pid}; take one in this process"
            raise PayloadError("payload", fact)
        try:
            content = self._take("sent")
        except IndexError:
            raise PayloadError("payload", f"{self!r}: {self._why()}") from None
        return content if self._shared else bytes(content)
