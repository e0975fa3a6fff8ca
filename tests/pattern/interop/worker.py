"""The program in which a foreign library runs: ``python -m ... nng`` or ``nanomsg``.

It carries out the requests on its standard input, one after the other: the name of a
method of the driver and its arguments. Each is answered with the result or an error.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from tests.pattern.interop.nanomsg_driver import NanomsgDriver
    from tests.pattern.interop.nng_driver import NngDriver

__all__ = ["HEAD", "pack", "serve"]

HEAD: Final = struct.Struct("!I")


def pack(value: object) -> bytes:
    """Return a value as one frame."""
    data = pickle.dumps(value)
    return HEAD.pack(len(data)) + data


def serve(
    driver: NanomsgDriver | NngDriver, requests: BinaryIO, answers: BinaryIO
) -> None:
    """Carry out requests until there are no more."""
    while head := requests.read(HEAD.size):
        name, arguments = pickle.loads(requests.read(HEAD.unpack(head)[0]))
        answer: tuple[bool, Any]
        try:
            answer = True, getattr(driver, name)(*arguments)
        except Exception as error:  # noqa: BLE001 # the test raises it
            answer = False, f"{type(error).__name__}: {error}"
        answers.write(pack(answer))
        answers.flush()


def main() -> None:
    """Serve one library, and end without the handlers at exit of its binding."""
    driver: NanomsgDriver | NngDriver
    if sys.argv[1] == "nng":
        from tests.pattern.interop.nng_driver import NngDriver  # noqa: PLC0415

        driver = NngDriver()
    else:
        from tests.pattern.interop.nanomsg_driver import (  # noqa: PLC0415
            NanomsgDriver,
        )

        driver = NanomsgDriver()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for the output of a library
    serve(driver, sys.stdin.buffer, answers)
    # Devices still run in threads that nothing ends.
    os._exit(0)


if __name__ == "__main__":
    main()
