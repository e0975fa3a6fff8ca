"""The tables of a connection: its states, and what each allows."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["STATES"]


def _table(old: str, new: str) -> tuple[Edit, ...]:
    """One row of the tables of a connection, changed."""
    return (Edit("status.py", f"    {old},\n", f"    {new},\n"),)


STATES = (
    Mutant(
        "O13",
        "a send to a full buffer is taken for done",
        ("QB-SEND-6", "QB-FIFO-3"),
        _table("(_C, False, False): _WAIT", "(_C, False, False): _DO"),
    ),
    Mutant(
        "O17",
        "a send on a disconnected end waits while the peer's buffer is full",
        ("QB-SEND-10",),
        (
            *_table("(_D, False, False): _REFUSE", "(_D, False, False): _WAIT"),
            *_table("(_D, False, True): _REFUSE", "(_D, False, True): _WAIT"),
        ),
    ),
    Mutant(
        "O50",
        "a disconnected end whose peer's buffer is full tells a poll to come back",
        ("QB-SEND-10",),
        _table("(_D, False, False): _REFUSE", "(_D, False, False): _WAIT"),
    ),
    Mutant(
        "O19",
        "a receive on an empty buffer is refused",
        ("QB-RECV-2",),
        _table("(_C, False): _WAIT", "(_C, False): _REFUSE"),
    ),
    Mutant(
        "O20",
        "nothing is received once the peer has hung up",
        ("QB-RECV-3",),
        _table("(_H, True): _DO", "(_H, True): _REFUSE"),
    ),
    Mutant(
        "O29",
        "an end that drains is called connected",
        ("QB-DISC-1",),
        _table("(False, True, True): _H", "(False, True, True): _C"),
    ),
    Mutant(
        "O31",
        "an end that has hung up goes on as long as its peer does not",
        ("QB-DISC-3",),
        _table("(True, False, False): _D", "(True, False, False): _C"),
    ),
    Mutant(
        "O32",
        "a new send is refused while half-disconnected",
        ("QB-DISC-6",),
        (
            *_table("(_H, True, False): _DROP", "(_H, True, False): _REFUSE"),
            *_table("(_H, False, False): _DROP", "(_H, False, False): _REFUSE"),
        ),
    ),
    Mutant(
        "O35",
        "with nothing unread an end is half-disconnected, not disconnected",
        ("QB-DISC-12",),
        (
            *_table("(False, True, False): _D", "(False, True, False): _H"),
            *_table("(_H, True): _DO", "(_H, True): _DO,\n    (_H, False): _REFUSE"),
        ),
    ),
)
