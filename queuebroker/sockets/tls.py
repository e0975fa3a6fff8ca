"""`Tls`: the certificate and the trusted authority of one side of ``tls`` addresses."""

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

    They are read for each connection, so that renewed ones count from the next on.

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
            OSError: a file does not exist, or has the wrong content; the text names it.
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
