"""`Tls`: the certificate and the trusted authority of one side of ``tls`` addresses."""

from __future__ import annotations

import logging
import os
from typing import Final

import attrs

from queuebroker import _net, _sync
from queuebroker._net import TlsContext

__all__ = ["CurrentContext", "Tls"]

_log: Final = logging.getLogger("queuebroker.sockets")

StrPath = str | os.PathLike[str]


@attrs.frozen(slots=True, kw_only=True)
class Tls:
    """Files in PEM for TLS 1.3, for listening and for connecting.

    They are read again when they change, so that renewed ones count from the next
    connection on.

    certificate, key: the certificate that this side presents; required to listen.
    authority: the authority whose certificates this side trusts. With it, a listener
        admits only peers that present such a certificate. Without it, a connecting side
        trusts the authorities of the system.
    check_host: True if the host in the address must be in the listener's certificate;
        False if the caller checks another name in it, such as `Peer.uris`.
    """

    certificate: StrPath | None = None
    key: StrPath | None = None
    authority: StrPath | None = None
    check_host: bool = True

    def context(self, *, server: bool) -> TlsContext:
        """Return the context of one role.

        Raises:
            OSError: a file does not exist, has the wrong content, or its key has a
                passphrase; the text names it.
            ValueError: ``server`` is true and there is no certificate.
        """
        if server and self.certificate is None:
            msg = "cannot listen with TLS: no certificate was given"
            raise ValueError(msg)
        given = (self.certificate, self.key, self.authority)
        certificate, key, authority = (
            None if one is None else os.fspath(one) for one in given
        )
        return _net.tls_context(
            server=server,
            certificate=certificate,
            key=key,
            authority=authority,
            check_host=self.check_host,
        )


class CurrentContext:
    """The context of one role, made anew when one of its files changes.

    Reading the files costs as much as half a handshake. While a file is damaged, such
    as in the middle of a copy, the last good context stays: peers must not be rejected
    for that.

    Lock: ``_lock`` guards ``_seen`` and ``_context``; many threads may connect at once.

    Args:
        server: True to listen, False to connect.
    """

    __slots__ = ("_context", "_lock", "_seen", "_server", "_tls")

    def __init__(self, tls: Tls, *, server: bool) -> None:
        self._tls: Final = tls
        self._server: Final = server
        self._lock: Final = _sync.Lock()
        self._seen: tuple[tuple[int, int, int] | None, ...] = ()  # before the first
        self._context: TlsContext | None = None

    def get(self) -> TlsContext:
        """Return the context for one more peer.

        Raises:
            OSError, ValueError: there is none yet, and `Tls.context` raises this.
        """
        with self._lock:
            return self._get_locked()

    def _get_locked(self) -> TlsContext:
        seen = self._look()
        if self._context is None or seen != self._seen:
            try:
                self._context = self._tls.context(server=self._server)
            except OSError as error:
                if self._context is None:
                    raise
                _log.warning("the former TLS files stay in use: %s", error)
            self._seen = seen
        return self._context

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return what changes whenever a file is replaced or written."""
        tls = self._tls
        return tuple(map(_stamp, (tls.certificate, tls.key, tls.authority)))


def _stamp(file: StrPath | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)
