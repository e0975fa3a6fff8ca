"""The optional members of an implementation, as named in a scenario's ``needs``.

A need is spelled ``owner.member`` or ``owner.member(parameter)``; the owners are
``factory()``, ``broker``, ``queue``, ``channels`` (a broker of channels), ``channel``.
Nothing is called: members are looked up, parameters read from signatures.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["has"]

_NEED = re.compile(r"(?P<owner>.+?)\.(?P<member>\w+)(?:\((?P<parameter>\w+)\))?")


def has(objects: dict[str, Any], need: str) -> bool:
    """Return True if the object with the owner's name has the needed member.

    A call that takes ``**kwargs`` counts as having every parameter; one whose
    signature cannot be read, such as a C function, counts as having none.
    """
    match = _NEED.fullmatch(need)
    if match is None:
        raise ValueError(f"need must be owner.member or owner.member(x), got {need!r}")
    owner = objects.get(match["owner"])
    # On the class first: a property that raises on an end is still a member.
    member = getattr(type(owner), match["member"], None)
    if member is None and owner is not None:
        member = getattr(owner, match["member"], None)
    if match["parameter"] is None:
        return member is not None
    try:
        parameters = inspect.signature(member).parameters if member else {}
    except (TypeError, ValueError):
        return False
    return match["parameter"] in parameters or any(
        each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()
    )
