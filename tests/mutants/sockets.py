"""Mutants of the sockets: halves of conditions, and events of another life."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["SOCKETS"]

SOCKETS: tuple[Mutant, ...] = (
    Mutant(
        "X1",
        "a long text is cut in the middle of a character",
        ("QB-SOCK-5",),
        (
            Edit(
                "sockets/frames.py",
                '        data = data[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()\n',
                "        data = data[:TEXT_BYTES_MAX]\n",
            ),
        ),
    ),
    Mutant(
        "X2",
        "data that a socket did not take is kept, and the driver does not send it",
        ("QB-SOCK-8",),
        (
            Edit(
                "sockets/link.py",
                "            self._unsent.pieces.append(memoryview(data)[sent:])\n            self.turn.block_locked(True)\n",
                "            self._unsent.pieces.append(memoryview(data)[sent:])\n",
            ),
        ),
    ),
    Mutant(
        "X3",
        "the clock of the handshake ends a peer that waits to be accepted",
        ("QB-SOCK-9",),
        (
            Edit(
                "sockets/listener.py",
                "        if self in self._listener.unknown:\n            self._end()",
                "        self._end()",
            ),
        ),
    ),
    Mutant(
        "X4",
        "descriptors that come after a disconnect stay open",
        ("QB-SOCK-9",),
        (
            Edit(
                "sockets/connection.py",
                "                elif event.descriptors:\n                    close_all(self.link.take_fds_locked(event.descriptors) or ())\n",
                "",
            ),
        ),
    ),
    Mutant(
        "X5",
        "a broker that closes removes the file of another one",
        ("QB-SOCK-2",),
        (
            Edit(
                "_net.py",
                "        if identity_of(path) == identity:\n            path.unlink()",
                "        path.unlink()",
            ),
        ),
    ),
    Mutant(
        "X6",
        "a connection stays open after the last message of a peer that left",
        ("QB-SOCK-4",),
        (
            Edit(
                "sockets/connection.py",
                "            or self.closed[1 - self.side]\n        ):\n            self.took_locked(0)",
                "        ):\n            self.took_locked(0)",
            ),
        ),
    ),
    Mutant(
        "X7",
        "an error of one peer ends the driver of all",
        ("QB-SOCK-10",),
        (
            Edit(
                "sockets/driver.py",
                "                except BaseException as error:  # noqa: BLE001 # it decides what to raise\n                    self._fail(handler, error)\n",
                "                except ZeroDivisionError as error:\n                    self._fail(handler, error)\n",
            ),
        ),
    ),
    Mutant(
        "X8",
        "a timer of months is more than the driver can wait for",
        ("QB-SOCK-8",),
        (
            Edit(
                "sockets/driver.py",
                "        return None if timeout is None else min(timeout, _net.POLL_S_MAX)\n",
                "        return timeout\n",
            ),
        ),
    ),
    Mutant(
        "X9",
        "a driver whose thread does not start is found by the next call",
        ("QB-SOCK-10",),
        (
            Edit(
                "sockets/driver.py",
                "            made.begin()\n        except RuntimeError:  # the system has no thread left\n            made.close()\n",
                '            _defaults["default"] = made\n            made.begin()\n        except RuntimeError:\n',
            ),
        ),
    ),
)
