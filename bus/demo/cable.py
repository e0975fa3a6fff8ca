"""`Cable`: all TCP connections between two machines, which it forwards until it is cut.

Each machine advertises a port of the cable in place of its own one, as behind a router
that translates addresses. So every connection between them is made through the cable,
and nobody needs a right of the system to cut it.

While it is cut it forwards nothing, and closes nothing: as with a plug that is pulled,
the machines notice only by the silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from queuebroker import _net, _sync
from queuebroker.waiting.event import Event

if TYPE_CHECKING:
    from typing import Self

__all__ = ["LOOPBACK", "Cable"]

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 64
_BYTES_MAX: Final = 65_536
_SENDING: Final = 1  # the direction of a socket to shut down


@attrs.define(eq=False)
class _Plug:
    """One side of a forwarded connection.

    unsent: bytes read from the other side. While there are any, it is not read again.
    is_open: False until this side is connected.
    has_ended: True once it sends no more.
    """

    socket: _net.Socket
    is_open: bool
    unsent: bytes = b""
    has_ended: bool = False
    other: _Plug = attrs.field(init=False, repr=False)


class Cable:
    """Forwards connections in a thread of its own, in both directions, while not cut.

    Lock: none. The flags ``_is_cut`` and ``_has_ended`` are written by any thread, and
    read by its own one, which alone uses everything else once it runs.
    """

    def __init__(self) -> None:
        self._is_cut = False
        self._has_ended = False
        self._wake: Final = Event()
        # Polled instead of all sockets while the cable is cut.
        self._idle_poller: Final = _net.Poller()
        self._poller: Final = _net.Poller()
        for each in (self._idle_poller, self._poller):
            each.register(self._wake.fd, _net.READ)
        self._listening: Final[dict[int, tuple[_net.Socket, int]]] = {}
        self._plugs: Final[dict[int, _Plug]] = {}
        self._thread: Final = _sync.Thread(target=self._run, name="cable")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended = True
        self._wake_thread()
        self._thread.join()
        for plug in list(self._plugs.values()):
            plug.socket.close()
        for listening, _port in self._listening.values():
            listening.close()
        self._idle_poller.close()
        self._poller.close()
        self._wake.close()

    def lead_to(self, port: int) -> int:
        """Return a port of the loopback interface that leads to another one.

        Any thread may call this.

        Raises:
            OSError: no port or no descriptor is left.
        """
        listening = _net.listen_tcp(LOOPBACK, 0, backlog=_BACKLOG)
        # Noted before it is polled: its connections may come at once.
        self._listening[listening.fileno()] = listening, port
        self._poller.register(listening.fileno(), _net.READ)
        return _net.port_of(listening)

    def cut(self) -> None:
        """Forward nothing from now on."""
        self._is_cut = True
        self._wake_thread()

    def heal(self) -> None:
        """Forward everything again, also what was sent meanwhile."""
        self._is_cut = False
        self._wake_thread()

    def _wake_thread(self) -> None:
        self._wake.set()

    # Its thread.

    def _run(self) -> None:
        while not self._has_ended:
            poller = self._idle_poller if self._is_cut else self._poller
            for descriptor, events in poller.poll():
                if descriptor == self._wake.fd:
                    self._wake.clear()
                    break  # the cable may be cut: the rest is reported again
                if descriptor in self._listening:
                    self._connect(*self._listening[descriptor])
                elif descriptor in self._plugs:  # not closed by an earlier event
                    self._forward(self._plugs[descriptor], events)

    def _connect(self, listening: _net.Socket, port: int) -> None:
        """Accept a connection, and make the other half of it."""
        accepted = _net.accept(listening)
        if accepted is None:
            return
        near = _Plug(accepted[0], is_open=True)
        try:
            far = _Plug(_net.dial((LOOPBACK, port)), is_open=False)
        except OSError:
            near.socket.close()
            return
        near.other, far.other = far, near
        for plug in (near, far):
            self._plugs[plug.socket.fileno()] = plug
            self._poller.register(plug.socket.fileno(), 0)
        self._watch(near)

    def _forward(self, plug: _Plug, events: int) -> None:
        """Send what is unsent to a side, else read from it; on an error close both."""
        try:
            if not plug.is_open:
                _net.check_connected(plug.socket)
                plug.is_open = True
            if plug.unsent:
                self._send(plug)
            elif plug.other.is_open and not plug.other.unsent and not plug.has_ended:
                self._read(plug)
            elif events & _net.ENDED:
                # Reported until it is closed, and nothing else would be done about it.
                raise ConnectionResetError
        except _net.WOULD_BLOCK:
            pass
        except OSError:
            self._close(plug)
            return
        if plug.has_ended and plug.other.has_ended:
            self._close(plug)
        else:
            self._watch(plug)

    def _send(self, plug: _Plug) -> None:
        plug.unsent = plug.unsent[plug.socket.send(plug.unsent, _net.AT_ONCE) :]

    def _read(self, plug: _Plug) -> None:
        other = plug.other
        other.unsent = plug.socket.recv(_BYTES_MAX, _net.AT_ONCE)
        if other.unsent:
            self._send(other)
        else:
            plug.has_ended = True
            other.socket.shutdown(_SENDING)

    def _watch(self, plug: _Plug) -> None:
        """Poll both sides for what each of them waits for."""
        for each in (plug, plug.other):
            wanted = 0
            if each.unsent or not each.is_open:
                wanted |= _net.WRITE
            elif each.other.is_open and not each.other.unsent and not each.has_ended:
                wanted |= _net.READ
            self._poller.modify(each.socket.fileno(), wanted)

    def _close(self, plug: _Plug) -> None:
        for each in (plug, plug.other):
            del self._plugs[each.socket.fileno()]
            each.socket.close()
