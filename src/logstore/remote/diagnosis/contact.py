"""First contact with single addresses of a cluster, and what it means that one fails.

`Contact` opens clients that ask one address only, and never wait beyond its deadline. `explained` turns an error of
the client into a finding; where a listener has closed the connection without a word, it asks the port what it
speaks. Each thread uses clients of its own.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

from logstore.client.backend.findings import Finding, Level
from logstore.config.remote import Address, WireConfig
from logstore.config.schema import Setting
from logstore.config.security import uses_sasl, uses_tls
from logstore.errors import (
    AuthenticationError,
    BrokerTimeoutError,
    BrokerUnreachableError,
    LogstoreError,
    ProtocolError,
    UnsupportedVersionError,
)
from logstore.protocol.generated.messages import SaslHandshakeRequest
from logstore.remote.client import Client

#: The longest that one question about the kind of a port may take.
_PROBE_S = 3.0

_LOGIN_ADVICE = (
    "check the user and the password or token of sasl.*, and that the brokers know this user for the mechanism"
)


def shown(address: Address) -> str:
    """Return an address as messages show it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Contact:
    """Clients of single addresses, with the settings of a user. Any thread may use it.

    Raises:
        ConfigError: settings are unknown or out of range, or those of security are missing or contradict.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, Setting], timeout_s: float) -> None:
        self._settings = dict(settings)
        with Client(bootstrap, self._settings) as checked:
            self.config: WireConfig = checked.config
        self._deadline = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the seconds until the deadline, at least a millisecond."""
        return max(self._deadline - time.monotonic(), 0.001)

    def client(self, address: Address, *, parts: int = 1, **changes: Any) -> Client:
        """Return a client of one address, whose waits end after one of ``parts`` of the time that is left."""
        limit_ms = max(int(self.left_s() / parts * 1000), 1)
        config = self.config
        return Client(
            shown(address),
            self._settings,
            socket_connection_setup_timeout_ms=min(config.socket_connection_setup_timeout_ms, limit_ms),
            request_timeout_ms=min(config.request_timeout_ms, limit_ms),
            default_api_timeout_ms=min(config.default_api_timeout_ms, limit_ms),
            **changes,
        )

    @property
    def has_tls(self) -> bool:
        return uses_tls(self.config.security_protocol)

    @property
    def has_login(self) -> bool:
        return uses_sasl(self.config.security_protocol)


def kind_of(error: LogstoreError) -> str:
    """Return the name of the finding for an error of a first contact."""
    text = str(error)
    if isinstance(error, AuthenticationError):
        if "does not offer" in text:
            return "mechanism"
        if "asks for no login" in text:
            return "wrong-protocol"
        return "certificate" if "certificate" in text or "version of TLS" in text else "login"
    if isinstance(error, UnsupportedVersionError):
        return "old-broker"
    if isinstance(error, ProtocolError):
        return "wrong-protocol"
    if isinstance(error, BrokerTimeoutError):
        return "no-answer"
    if isinstance(error.__cause__, socket.gaierror):
        return "unknown-host"
    if isinstance(error, BrokerUnreachableError) and ("closed" in text or "no TLS handshake" in text):
        return "wrong-protocol"
    return "unreachable"


def explained(error: LogstoreError, address: Address, contact: Contact) -> Finding:
    """Return what it means that the first contact with an address has failed, and what to do."""
    place = shown(address)
    kind = kind_of(error)
    what, _, advice = str(error).removeprefix(f"{place}: ").removeprefix(f"{place} ").partition("; ")
    if kind == "login" and not advice:
        advice = _LOGIN_ADVICE
    if kind in ("wrong-protocol", "no-answer"):
        what, advice, kind = _port(address, contact) or (what, advice, kind)
    return Finding(Level.PROBLEM, kind, place, what, advice)


def _port(address: Address, contact: Contact) -> tuple[str, str, str] | None:
    """Return what a port speaks, what to set for it and the name of that, if the settings say something else."""
    protocol = contact.config.security_protocol.upper()
    login = "SASL_" if contact.has_login else ""
    if contact.has_tls and _speaks_plainly(address, contact):
        return (
            f"this listener speaks no TLS, and security.protocol is {protocol}",
            f"take the port of a listener with TLS, or set security.protocol to {login}PLAINTEXT",
            "wrong-protocol",
        )
    if not contact.has_tls and _speaks_tls(address, min(_PROBE_S, contact.left_s() / 2)):
        return (
            f"this listener speaks TLS, and security.protocol is {protocol}",
            f"set security.protocol to {login}SSL{'' if login else ' or SASL_SSL'}, or take the port of a listener "
            "without TLS",
            "wrong-protocol",
        )
    if not contact.has_login:
        offered = _mechanisms(address, contact)
        if offered is not None:
            return (
                f"this listener asks for a login, and security.protocol is {protocol}",
                f"set security.protocol to SASL_{'SSL' if contact.has_tls else 'PLAINTEXT'}, and sasl.mechanism to "
                f"one that it offers: {', '.join(offered) or 'none'}",
                "wrong-protocol",
            )
    return None


def _speaks_tls(address: Address, timeout_s: float) -> bool:
    import ssl

    # Nothing is sent over this connection, so nothing has to be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout_s) as connected, context.wrap_socket(connected):
            return True
    except ssl.SSLError as error:
        # A listener that wants our certificate, or another version of TLS, says so in an alert of TLS.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _speaks_plainly(address: Address, contact: Contact) -> bool:
    """Return whether a broker tells its versions without TLS. No setting of the user is sent there."""
    limit_ms = max(int(min(_PROBE_S, contact.left_s() / 2) * 1000), 1)
    try:
        with (
            Client(
                shown(address), socket_connection_setup_timeout_ms=limit_ms, request_timeout_ms=limit_ms
            ) as client,
            client.cluster.any_connection(),
        ):
            return True
    except LogstoreError:
        return False


def _mechanisms(address: Address, contact: Contact) -> list[str] | None:
    """Return the mechanisms that a listener offers; None if it asks for no login, or does not say."""
    try:
        with contact.client(address, parts=2) as client, client.cluster.any_connection() as connection:
            answer = connection.ask(SaslHandshakeRequest(mechanism="NONE"), version=1)
    except LogstoreError:
        return None
    return list(answer.mechanisms) if answer.mechanisms else None
