"""`Tls`: what one side of ``tls`` addresses shows, and whom it believes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from queuebroker import _net

if TYPE_CHECKING:
    from queuebroker._net import TlsContext

__all__ = ["Tls"]

StrPath = str | os.PathLike[str]


@attrs.frozen(slots=True, kw_only=True)
class Tls:
    """Files in PEM for TLS 1.3, for listening and for connecting.

    certificate, key: what this side shows; needed to listen.
    authority: whose certificates it believes. Who listens then lets in only peers that
        show one; who connects believes, without it, those that the system does. The
        name in the address must be in the listener's certificate.
    """

    certificate: StrPath | None = None
    key: StrPath | None = None
    authority: StrPath | None = None

    def context(self, *, server: bool) -> TlsContext:
        """Return the context of one role.

        Raises:
            OSError: a file is not there, or does not hold what it should.
            ValueError: to listen without a certificate.
        """
        if server and self.certificate is None:
            msg = "cannot listen with TLS: no certificate was given"
            raise ValueError(msg)
        given = (self.certificate, self.key, self.authority)
        certificate, key, authority = (
            None if one is None else os.fspath(one) for one in given
        )
        return _net.tls_context(
            server=server, certificate=certificate, key=key, authority=authority
        )
