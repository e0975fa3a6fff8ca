"""`bus_api`, `memory_api`, `pattern_api`: public names, from their docstrings.

What stands in a docstring is Markdown already, but for its sections (``Args:``,
``Raises:``), which become lists.
"""

from __future__ import annotations

import enum
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import bus
import bus.features.memory
import bus.pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_WIDTH: Final = 88
_SECTION: Final = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
_ITEM: Final = re.compile(r"^([a-zA-Z_]\w*(?:, [a-zA-Z_]\w*)*): ")
# Where the next item begins in the middle of a line.
_NEXT: Final = re.compile(r"\.[ ](?=[a-z_]\w*(?:, [a-z_]\w*)*: )")

# By what somebody looks for it, not by where it is defined.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Joining a bus": (
        "open_bus",
        "Bus",
        "BusThread",
        "BusConfig",
        "Durability",
        "Network",
        "DiscoveryScope",
        "Role",
    ),
    "Tasks": (*("Task", "CommandHandle", "Loan", "Subscription", "Watch", "Service"),),
    "Arguments of callbacks": (
        *("Incoming", "Response", "Undelivered", "Presence", "Kind", "NOREPLY"),
    ),
    "Names": ("Address", "Specification", "Visibility"),
    "Access": ("AccessList", "Grant"),
    "Inspection": (
        *("BusSnapshot", "ThreadInfo", "TaskInfo", "SubscriptionInfo", "Counters"),
        "TaskTotals",
        *("PeerInfo", "RelayInfo", "SentCounters", "MachineInfo", "MachineState"),
        *("SharedMemoryInfo", "SlabInfo", "ArenaRecipientInfo"),
        *("LongMessageCounters", "LentViewsInfo"),
    ),
    "Types": ("Payload", "Where", "Overflow", "NoReply"),
    "Errors": tuple(name for name in bus.__all__ if name.endswith("Error")),
}

MULTICAST_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "The pool, for the owner of the memory": ("Pool", "PoolLayout", "Mode", "Excerpt"),
    "For a recipient": ("Descriptor", "Piece", "Reader"),
    "Inspection": ("Census", "Holdings"),
}

PATTERN_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Sockets": ("BusSocket", "RawBusSocket", "PairSocket", "SocketConfig"),
    "Devices": ("device", "Device"),
    "Connections": ("Listener", "Dialler", "Group"),
    "Messages and accounts": (
        *("RawMessage", "Drop", "DropReason", "SocketStats", "PeerStats"),
        *("SenderAccount", "ReceiverAccount"),
    ),
}

# Made by a bus, or for a callback: nobody makes one by hand.
_MADE_FOR_YOU: Final = {
    *("Bus", "BusThread", "Task", "CommandHandle", "Loan", "Subscription", "Watch"),
    *("Incoming", "Response", "Undelivered", "Presence"),
    *GROUPS["Inspection"],
    *GROUPS["Errors"],
    *MULTICAST_GROUPS["Inspection"],
    *("Descriptor", "Piece"),
    *("Device", "Listener", "Dialler", "Group"),
    *("Drop", "SocketStats", "PeerStats", "SenderAccount", "ReceiverAccount"),
}


def bus_api() -> str:
    """Every public name of `bus`."""
    return _page(bus, GROUPS)


def memory_api() -> str:
    """Every public name of `bus.features.memory`."""
    return _page(bus.features.memory, MULTICAST_GROUPS)


def pattern_api() -> str:
    """Every public name of `bus.pattern`."""
    return _page(bus.pattern, PATTERN_GROUPS)


def _page(module: ModuleType, groups: dict[str, tuple[str, ...]]) -> str:
    lines: list[str] = []
    for title, names in groups.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"### `{name}`", "", *_entry(name, getattr(module, name))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip())


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield from _block([f"{name}{_signature(value)}"])
        yield from _prose(value)
    elif inspect.isclass(value) and issubclass(value, enum.Enum):
        yield from _prose(value)
        yield from _block([f"{name}.{each.name} = {each.value!r}" for each in value])
    elif inspect.isclass(value):
        if name not in _MADE_FOR_YOU and name != "BusConfig":
            # A struct has no constructor of its own; its class has the signature.
            own = value.__init__ if "__init__" in vars(value) else value
            yield from _block([f"{name}{_signature(own)}"])
        yield from _prose(value)
        for member, said in _members(value):
            yield from ("", f"#### `{name}.{member}`", "")
            yield from _block([f".{member}{_signature_of(said)}"])
            yield from _prose(said)
    else:
        yield from _block([f"{name} = {_value(value)}".replace("typing.", "")])


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what users call or read, in the order in which it stands in the source.

    The members of its bases in the same package come first.
    """
    package = kind.__module__.rpartition(".")[0]
    said_of: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        if each is kind or each.__module__.startswith(f"{package}."):
            said_of.update(vars(each))
    for name, said in said_of.items():
        plain = said.__func__ if isinstance(said, (staticmethod, classmethod)) else said
        public = not name.startswith("_")
        if public and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, plain


def _signature_of(said: Any) -> str:
    if isinstance(said, property):
        return f": {said.fget.__annotations__['return']}"
    return _signature(said)


def _signature(function: Any) -> str:
    """Give a signature as it stands in the source, without self."""
    signature = inspect.signature(function)
    parts, keywords = [], False
    for each in signature.parameters.values():
        if each.name in {"self", "cls"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not keywords:
            parts.append("*")
        keywords |= each.kind in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}
        kind = each.annotation
        # A struct gives types, and not the text of its annotations.
        kind = kind.__name__ if inspect.isclass(kind) else kind
        parts.append(f"{each.name}: {kind}")
        if each.default is not each.empty:
            is_mode = each.name == "mode" and isinstance(each.default, int)
            shown = f"0o{each.default:o}" if is_mode else _value(each.default)
            parts[-1] += f" = {shown}"
    makes = inspect.isclass(function) or function.__name__ == "__init__"
    answer = "" if makes else signature.return_annotation
    return f"({', '.join(parts)})" + (f" -> {answer}" if answer else "")


def _value(value: object) -> str:
    if isinstance(value, enum.IntEnum):  # its text is the number
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return str(value) if text.startswith("<") else text


def _block(lines: list[str]) -> Iterator[str]:
    yield "```text"
    for line in lines:
        yield from _wrapped(line)
    yield from ("```", "")


def _wrapped(line: str) -> Iterator[str]:
    """Break a signature after a comma where it is too long."""
    indent = ""
    while len(line) > _WIDTH:
        at = line.rfind(", ", 0, _WIDTH)
        if at <= len(indent):
            break
        yield line[: at + 1]
        indent = "    "
        line = indent + line[at + 2 :]
    yield line


def _prose(said: Any) -> Iterator[str]:
    """Yield a docstring as Markdown, its sections as lists."""
    within = ""  # how far a section's items are indented
    for paragraph in (inspect.getdoc(said) or "").replace("``", "`").split("\n\n"):
        lines = paragraph.splitlines()
        if lines and (match := _SECTION.match(lines[0])):
            yield from (f"*{match[1]}:*", "")
            lines, within = lines[1:], "    "
        elif not all(line.startswith(within) for line in lines):
            within = ""
        lines = [line.removeprefix(within) for line in lines]
        listed = bool(lines) and _ITEM.match(lines[0]) is not None
        if listed:  # each on a line of its own
            lines = _NEXT.sub(".\n", "\n".join(lines)).splitlines()
        for line in lines:
            item = _ITEM.match(line) if listed else None
            yield f"* `{item[1]}`: {line[item.end() :]}" if item else line
        yield ""
