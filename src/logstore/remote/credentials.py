"""What a client proves itself with to every broker, made once from its settings.

`Credentials` joins the TLS context, the login and the tokens of one client. They are checked when the client is
made: before any connection, with everything that is missing named at once. Passwords, tokens and files of
references are read when a connection logs in. Any thread may use them.
"""

from __future__ import annotations

import functools
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from logstore.config.remote import WireConfig
from logstore.config.schema import fields_of, key_of
from logstore.config.security import OAUTHBEARER, login_of, uses_tls
from logstore.errors import AuthenticationError
from logstore.remote.sasl.mechanisms import LoginRequests, check_library, login_requests, mechanism_of
from logstore.remote.sasl.tokens import OAuthToken, Tokens
from logstore.remote.security.transports import PlainTransport, SocketTransport, TlsTransport

if TYPE_CHECKING:
    import ssl

_logger = logging.getLogger(__name__)


class Credentials:
    """The TLS context, login and tokens of one client.

    ``oauth_token`` returns a token of OAUTHBEARER for each login that needs one.

    Raises:
        InvalidSettingError: settings of security are missing or contradict, all named at once; or a certificate, a
            key or a password is wrong.
        MissingLibraryError: a mechanism or a file needs the extra ``[security]``.
    """

    def __init__(self, config: WireConfig, oauth_token: Callable[[], OAuthToken] | None = None) -> None:
        self._config = config
        self.protocol = config.security_protocol.upper()
        self._login = login_of(config, has_token=oauth_token is not None)
        self._context: ssl.SSLContext | None = None
        self._tokens: Tokens | None = None
        if self._login is not None:
            check_library(self._login)
            if self._login.mechanism == OAUTHBEARER:
                self._tokens = Tokens(
                    self._login,
                    given=oauth_token,
                    context=functools.partial(_endpoint_context, config),
                    encodes=config.sasl_oauthbearer_header_urlencode,
                )
        if uses_tls(config.security_protocol):
            from logstore.remote.security.context import client_context

            self._context = client_context(config)
        if self.protocol == "PLAINTEXT":
            _warn_of_unused(config)

    def again(self) -> Credentials:
        """Return the same for a forked child, which must not wait for a lock of its parent."""
        made = object.__new__(Credentials)
        made.__dict__.update(self.__dict__)
        made._tokens = None if self._tokens is None else self._tokens.again()
        return made

    @property
    def logs_in(self) -> bool:
        return self._login is not None

    @property
    def has_tls(self) -> bool:
        return self._context is not None

    def transport(self, connected: socket.socket, host: str) -> SocketTransport:
        """Return the transport of a connected socket that does not block; a TLS handshake is still to be done.

        The socket belongs to the transport.
        """
        return PlainTransport(connected) if self._context is None else TlsTransport(self._context, connected, host)

    def login_steps(self, peer: str, timeout_s: float) -> LoginRequests:
        """Yield the requests of a login; ``timeout_s`` limits a request for a token.

        A step may wait for a token or compute for milliseconds. Raises as `login_requests` and `Tokens.get`.
        """
        assert self._login is not None
        token = None if self._tokens is None else self._tokens.get(timeout_s)
        mechanism, secrets = mechanism_of(self._login, token)
        try:
            return (yield from login_requests(self._login, mechanism, secrets, peer))
        except AuthenticationError:
            if self._tokens is not None:
                self._tokens.forget()
            raise


def _endpoint_context(config: WireConfig) -> ssl.SSLContext:
    """Return the TLS context for an endpoint of tokens: it trusts the system's authorities, and the given ones."""
    import ssl

    from logstore.remote.security.keystores import authorities

    context = ssl.create_default_context()
    given = authorities(config)
    if given:
        context.load_verify_locations(cadata=given)
    return context


def _warn_of_unused(config: WireConfig) -> None:
    """Log the settings that PLAINTEXT makes useless: the user probably expects an encrypted connection."""
    changed = config.changed()
    unused = [
        key for key in map(key_of, fields_of(WireConfig)) if key in changed and key.startswith(("ssl.", "sasl."))
    ]
    if unused:
        _logger.warning("security.protocol is PLAINTEXT: settings without effect: %s", ", ".join(unused))
