"""Argument checks: one check and one error for each kind of argument.

Argument errors are raised before anything else, in every state (QB-SEND-8), so these
functions do not depend on queues, brokers or locks.
"""

from __future__ import annotations

import enum
import itertools
import operator
import sys
from typing import TYPE_CHECKING, SupportsIndex

from queuebroker import _sync
from queuebroker.errors import MessageTooLargeError

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    # For `typing.get_type_hints`. Of others, this package loads `attrs` and no more.
    Buffer = bytes | bytearray | memoryview

__all__ = [
    "Buffer",
    "byte_range",
    "check_callable",
    "check_error",
    "check_instance",
    "check_name",
    "check_port",
    "deadline_after",
    "flat_view",
    "index",
    "known_as",
    "positive",
    "remaining_s",
    "seconds",
    "snapshot",
    "within_own_call",
    "wrong_type",
]

PORT_LIMIT = 2**31


def known_as(kind: type) -> str:
    """Return the name by which users know a class.

    A class of this package has its public name: every kind of `MessageQueue` is called
    so. A face for coroutines has the name of its plain class, with the prefix ``aio.``.
    A class of another package gets as prefix the outermost module from which it can be
    imported, since its name may be the same.
    """
    module, name = kind.__module__, kind.__qualname__
    if module == "builtins":
        return name
    package, _, part = module.partition(".")
    if package != __package__:
        prefixes = itertools.accumulate(module.split("."), "{}.{}".format)
        exports = (each for each in prefixes if _exports(each, kind))
        return f"{next(exports, module)}.{name}"
    if part.partition(".")[0] == "aio":
        return f"aio.{name}"
    public: str = getattr(
        kind, "_kind", name
    )  # the public name of a private kind of end
    return public


def _exports(module: str, kind: type) -> bool:
    try:
        return getattr(sys.modules.get(module), kind.__name__, None) is kind
    except Exception:  # noqa: BLE001 # of ``__getattr__`` of a module, of any kind
        return False


def wrong_type(what: str, wanted: str, value: object, way_out: str = "") -> TypeError:
    """Return the exception for an argument that is no ``wanted``."""
    return TypeError(f"{what} must be {wanted}, got {known_as(type(value))}{way_out}")


def within_own_call(act: str, what: str) -> RuntimeError:
    """Return the error of a signal handler that interrupted a call on the same object.

    It cannot wait for the lock that its own thread holds.
    """
    return RuntimeError(
        f"cannot {act}: this signal handler interrupted a call on the same {what}; set "
        "a flag, or put the event into a queue.SimpleQueue that another thread reads"
    )


def check_name(name: object) -> str:
    """Return the name of a broker: a non-empty `str`, kept as it is (QB-NAME-3)."""
    if not isinstance(name, str):
        raise wrong_type("name of a broker", "a str", name)
    if not name:
        msg = "name of a broker must not be empty"
        raise ValueError(msg)
    return name


def check_error(error: object) -> None:
    """Check the error of a disconnect: an exception, or None."""
    if error is not None and not isinstance(error, BaseException):
        msg = f"error must be an exception or None, got {error!r}"
        raise TypeError(msg)


def check_callable(what: str, value: object) -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise wrong_type(what, "callable", value)


def check_instance(what: str, value: object, kind: type) -> None:
    """Check the type of a value; if its ``queue`` has that type, suggest it."""
    if not isinstance(value, kind):
        name = known_as(kind)
        wanted = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
        way_out = ""
        if isinstance(getattr(value, "queue", None), kind):
            way_out = ": give its .queue"
        elif issubclass(kind, enum.Enum):
            way_out = f": give one of {', '.join(map(str, kind))}"
        raise wrong_type(what, wanted, value, way_out)


def check_port(port: object) -> int:
    """Return a port: an int from 0 to 2**31 - 1 (QB-RDV-17)."""
    number = port if type(port) is int else index("port", port)
    if not 0 <= number < PORT_LIMIT:
        msg = f"port must be in 0..{PORT_LIMIT - 1}, got {number}"
        raise ValueError(msg)
    return number


def index(what: str, value: object) -> int:
    """Return ``value`` as an int; accepts ``__index__``, not bool (QB-ERR-4)."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise wrong_type(what, "an int", value)
    return operator.index(value)


def positive(what: str, value: object, most: int | None = None) -> int:
    """Return ``value`` as an int of at least 1, and at most ``most`` (QB-BUF-1)."""
    number = value if type(value) is int else index(what, value)
    if number < 1:
        msg = f"{what} must be >= 1, got {number}"
        raise ValueError(msg)
    if most is not None and number > most:
        msg = f"{what} must be at most {most}, got {number}"
        raise ValueError(msg)
    return number


def seconds(what: str, value: object, *, has_zero: bool = True) -> float:
    """Return a setting in seconds: a number of at least 0, infinity included.

    has_zero: False if 0 is refused, too.

    An int above all floats is refused: the next sum with it would raise an error
    elsewhere.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(what, "a number of seconds", value)
    try:
        number = float(value)
    except OverflowError:
        msg = f"{what} must be below {sys.float_info.max:.1e} s, or math.inf"
        raise ValueError(msg) from None
    if not (number >= 0 if has_zero else number > 0):  # NaN is neither
        msg = f"{what} must be {'>=' if has_zero else '>'} 0, got {value}"
        raise ValueError(msg)
    return number


def deadline_after(timeout: float | None, name: str = "timeout") -> float | None:
    """Turn a timeout in seconds into a point on the monotonic clock (QB-TIME-1).

    None, infinity and any timeout too long for the platform mean never.
    """
    if timeout is None:
        return None
    if type(timeout) is not float and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float))
    ):
        raise wrong_type(name, "a number or None", timeout)
    if not timeout >= 0:  # NaN is not >= 0 either
        msg = f"{name} must be >= 0, got {timeout}"
        raise ValueError(msg)
    if timeout > _sync.WAIT_S_MAX:
        return None
    return _sync.monotonic() + timeout


def remaining_s(deadline: float | None) -> float | None:
    """Return the seconds left until a point on the monotonic clock."""
    return None if deadline is None else max(0.0, deadline - _sync.monotonic())


def byte_range(size: int, offset: object, length: object) -> tuple[int, int]:
    """Return (start, stop) of a range that must lie within ``size`` (QB-ERR-3)."""
    start = index("offset", offset)
    count = size - start if length is None else index("length", length)
    if start < 0 or count < 0 or start + count > size:
        given = "" if length is None else f"length {count}, "
        msg = f"range outside the buffer: offset {start}, {given}size {size}"
        raise ValueError(msg)
    return start, start + count


def flat_view(data: Buffer, what: str = "data") -> memoryview:
    """Return the bytes of a C-contiguous buffer, flattened (QB-SEND-3).

    what: the name of the argument, for errors.
    """
    try:
        view = memoryview(data)
    except TypeError:
        way_out = ": encode it" if isinstance(data, str) else ""
        raise wrong_type(what, "bytes-like", data, way_out) from None
    if not view.c_contiguous:
        msg = f"{what} must be C-contiguous"
        raise TypeError(msg)
    # cast() refuses shapes that contain a zero; such a buffer is empty.
    return view.cast("B") if view.nbytes else memoryview(b"")


def snapshot(data: Buffer, offset: object, length: object, limit: int | None) -> bytes:
    """Copy [offset, offset + length) of ``data`` as one message (QB-SEND-1, 7).

    An exact `bytes` sent whole is not copied, because it is immutable.

    Raises:
        TypeError: not bytes-like, not contiguous, or no ints.
        ValueError: the range is not within the data.
        MessageTooLargeError: the message is longer than ``limit`` bytes.
    """
    if type(data) is bytes and length is None and type(offset) is int and not offset:
        message = data
    else:
        view = flat_view(data)
        start, stop = byte_range(len(view), offset, length)
        message = bytes(view[start:stop])
    if limit is not None and len(message) > limit:
        msg = f"message of {len(message)} bytes is above max_message_size {limit}"
        raise MessageTooLargeError(msg)
    return message
