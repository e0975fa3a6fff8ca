"""What is let in: ports, timeouts, and the copy that is made of the data."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["ARGUMENTS"]

ARGUMENTS = (
    Mutant(
        "O10",
        "a port has no upper limit",
        ("QB-RDV-17",),
        (Edit("arguments.py", "if not 0 <= number < PORT_LIMIT:", "if number < 0:"),),
    ),
    Mutant(
        "O11",
        "the offset is ignored",
        ("QB-SEND-1",),
        (
            Edit(
                "arguments.py", "bytes(view[start:stop])", "bytes(view[: stop - start])"
            ),
        ),
    ),
    Mutant(
        "O14",
        "the message is a view of the caller's buffer",
        ("QB-SEND-7",),
        (Edit("arguments.py", "bytes(view[start:stop])", "view[start:stop]"),),
    ),
    Mutant(
        "O16",
        "max_message_size is off by one",
        ("QB-SEND-9",),
        (Edit("arguments.py", "len(message) > limit", "len(message) >= limit"),),
    ),
    Mutant(
        "O23",
        "what is received is of the sender's own class",
        ("QB-RECV-7",),
        (
            Edit(
                "arguments.py", "type(data) is bytes and", "isinstance(data, bytes) and"
            ),
        ),
    ),
    Mutant(
        "O38",
        "NaN passes for a timeout",
        ("QB-TIME-1",),
        (Edit("arguments.py", "if not timeout >= 0:", "if timeout < 0:"),),
    ),
    Mutant(
        "O39",
        "a wait ends a tenth too early",
        ("QB-TIME-2",),
        (Edit("arguments.py", "monotonic() + timeout", "monotonic() + timeout * 0.9"),),
    ),
)
