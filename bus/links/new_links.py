"""`NewLinks`: how a process gets a link, by dialling or by letting others in.

To make one takes time, and is done elsewhere (`Lines`); this says who is dialled, and
tells the manager what came of it, with who is at the other end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.actions import Dial
    from bus.core.neighbourhood import Neighbourhood
    from bus.links.joining import Joining
    from bus.links.lines import Lines, LinkBroker
    from bus.rights import Credentials
    from bus.threads.exchange import Exchange
    from queuebroker.message_queue import MessageQueue

__all__ = ["NewLinks"]


class NewLinks:
    """The making of links of one process; for its comm thread alone.

    Args:
        exchange, remote, lines: those of its process.
        credentials: says who is at the other end of a link, and may do what.
        claim: makes this process master, if there is none; gives the broker at which
            others are let in then. Asked before the master is dialled.
        joining: told what it means for this process that the master is not reached.
    """

    __slots__ = ("_claim", "_credentials", "_exchange", "_joining", "_lines", "_remote")

    def __init__(
        self,
        exchange: Exchange,
        remote: Neighbourhood,
        lines: Lines,
        *,
        credentials: Callable[[MessageQueue], Credentials],
        claim: Callable[[], LinkBroker | None],
        joining: Joining,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._lines: Final = lines
        self._credentials: Final = credentials
        self._claim: Final = claim
        self._joining: Final = joining

    def let_in(self, broker: LinkBroker) -> None:
        """Let others in at a broker.

        Raises:
            RuntimeError: as `Lines.let_in`.
        """
        self._lines.let_in(broker, self._accepted)

    def _accepted(self, number: int) -> None:
        now, whose = _sync.monotonic(), self._credentials(self._lines.queue(number))
        self._exchange.decide(lambda: self._remote.accepted(number, now, whose))

    def dial(self, dial: Dial) -> None:
        """Make a link with another process, or be master if it was to be with that."""
        me = self._remote.neighbours.me
        to_master = dial.key == (me.machine, "")
        if to_master and (door := self._claim()) is not None:
            try:
                self.let_in(door)
            except RuntimeError:  # no thread for that: another time, or somebody else
                self._dial_failed(dial)
            else:
                self._exchange.decide(self._remote.become_master)
            return

        def made(number: int | None) -> None:
            if number is None:
                if to_master:
                    self._joining.no_master()
                self._dial_failed(dial)
            else:
                now = _sync.monotonic()
                whose = self._credentials(self._lines.queue(number))
                self._exchange.decide(
                    lambda: self._remote.dialled(
                        number, dial.kind, dial.key, now, whose
                    )
                )

        denied = self._joining.denied if to_master else None
        self._lines.dial(dial.addresses, made, denied)

    def _dial_failed(self, dial: Dial) -> None:
        now = _sync.monotonic()
        self._exchange.decide(
            lambda: self._remote.dial_failed(dial.kind, dial.key, now)
        )
