"""SASL mechanisms of a client, and the exchange in which a connection uses one.

A mechanism is a generator: it yields the bytes for the broker and is sent the broker's answers. PLAIN is RFC 4616,
SCRAM is RFC 5802 and RFC 7677 (by the package ``scramp``, of the extra ``[security]``), OAUTHBEARER is RFC 7628.
`authenticate` wraps them in Kafka's messages: SaslHandshake in version 1, then SaslAuthenticate. No error shows a
password or a token, even if a broker's message does. Any thread may use these functions, each for its connection.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from logstore.config.secrets import HIDDEN
from logstore.config.security import OAUTHBEARER, PLAIN, SCRAM, Login
from logstore.errors import AuthenticationError, InvalidSettingError, MissingLibraryError
from logstore.protocol import codes
from logstore.protocol.generated.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from logstore.remote.sasl.tokens import Token

#: Yields the bytes for the broker, is sent the broker's answers, and ends when it has accepted the last one.
Mechanism = Generator[bytes, bytes, None]

#: More rounds than any mechanism has.
_MOST_ROUNDS = 8


def check_library(login: Login) -> None:
    """Refuse a mechanism whose library is not installed.

    Raises:
        MissingLibraryError: scramp is not installed; the message names the extra.
    """
    if login.mechanism not in SCRAM:
        return
    try:
        import scramp  # noqa: F401
    except ImportError as error:
        raise MissingLibraryError(
            f"sasl.mechanism={login.mechanism} needs the package scramp: install logstore with its extra [security]"
        ) from error


def mechanism_of(login: Login, token: Token | None) -> tuple[Mechanism, tuple[str, ...]]:
    """Return the mechanism of a login, and the secrets that it uses; ``token`` is for OAUTHBEARER.

    Raises:
        InvalidSettingError: a secret refers to a file or a variable that is not there.
    """
    if login.mechanism == OAUTHBEARER:
        assert token is not None
        extensions = [(name, _revealed("sasl.jaas.config", value)) for name, value in login.extensions]
        return _bearer(token.value.reveal(), extensions), (token.value.reveal(),)
    username = _revealed("the user of the login", login.username)
    password = _revealed("the password of the login", login.password)
    if not password or "\0" in username + password:
        raise InvalidSettingError({"sasl.password": "empty, or with a character of number 0"})
    if login.mechanism == PLAIN:
        return _plain(username, password), (password,)
    return _scram(login.mechanism, username, password), (password,)


def _revealed(key: str, value: Any) -> str:
    try:
        found: str = value.reveal()
    except ValueError as error:
        raise InvalidSettingError({key: str(error)}) from None
    return found


def _plain(username: str, password: str) -> Mechanism:
    yield f"\0{username}\0{password}".encode()


def _scram(name: str, username: str, password: str) -> Mechanism:
    import scramp

    try:
        client = scramp.ScramClient([name], username, password)
        server_first = yield client.get_client_first().encode()
        # The library compares the nonces, and refuses fewer than 4,096 and more than ten million iterations.
        client.set_server_first(server_first.decode("utf-8"))
        server_final = yield client.get_client_final().encode()
        client.set_server_final(server_final.decode("utf-8"))
    except (scramp.ScramException, UnicodeDecodeError, ValueError) as error:
        # The broker has not proved that it knows the password, or the password holds signs that SCRAM forbids.
        raise AuthenticationError(f"the exchange of {name} failed: {error}") from None


def _bearer(token: str, extensions: Iterable[tuple[str, str]]) -> Mechanism:
    parts = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions)]
    refused = yield ("n,,\x01" + "\x01".join(parts) + "\x01\x01").encode()
    if refused:
        # RFC 7628: the client answers the reason with this byte, and only then does the broker end the exchange.
        yield b"\x01"


#: The requests of a login: it is sent their answers, and returns how long the broker accepts it, in milliseconds.
LoginRequests = Generator[Any, Any, int]


def login_requests(login: Login, mechanism: Mechanism, secrets: Iterable[str], peer: str) -> LoginRequests:
    """Yield the requests that authenticate a connection, in order; ``peer`` names the broker.

    Raises:
        AuthenticationError: the broker does not know the mechanism or refuses the login, or does not prove that it
            knows the password.
    """
    answer = yield SaslHandshakeRequest(mechanism=login.mechanism)
    if answer.error_code == codes.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationError(
            f"{peer} does not offer sasl.mechanism={login.mechanism}; this listener offers {offered}"
        )
    if answer.error_code == codes.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            f"{peer}: this listener asks for no login; check the port, or set security.protocol to PLAINTEXT or SSL"
        )
    if answer.error_code:
        raise codes.error_of(answer.error_code, f"handshake of {login.mechanism} with {peer}")
    lifetime_ms = 0
    try:
        said = next(mechanism)
        for _ in range(_MOST_ROUNDS):
            answer = yield SaslAuthenticateRequest(auth_bytes=said)
            if answer.error_code:
                raise codes.error_of(
                    answer.error_code,
                    f"login of {login.mechanism} at {peer}",
                    _without(secrets, answer.error_message),
                )
            lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
            said = mechanism.send(answer.auth_bytes)
    except StopIteration:
        return max(lifetime_ms, 0)
    except AuthenticationError as error:
        if peer in str(error):
            raise
        raise AuthenticationError(f"login of {login.mechanism} at {peer}: {error}") from None
    raise AuthenticationError(f"login of {login.mechanism} at {peer}: the broker never ends the exchange")


def _without(secrets: Iterable[str], text: str | None) -> str | None:
    """Return what a broker says, without the secrets that it may repeat."""
    for each in secrets:
        text = text.replace(each, HIDDEN) if text and each else text
    return text
