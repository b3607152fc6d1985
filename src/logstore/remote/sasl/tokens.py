"""Tokens of OAUTHBEARER: where they come from, and how long one is used.

A token comes from a function of the caller, from a file that is read again for each login, or from an endpoint by
client credentials (RFC 6749, section 4.4). `Tokens` keeps a token until 80 % of its life has passed, for all
connections of a client; concurrent logins wait for one request. Redirects of an endpoint are not followed: they
would take the secret elsewhere. Messages show neither tokens nor secrets.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from logstore.config.secrets import Secret, read_text
from logstore.config.security import Login, shown_url
from logstore.errors import AuthenticationError, BrokerTimeoutError, BrokerUnreachableError, LogstoreError

if TYPE_CHECKING:
    import ssl

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"

#: Share of its life for which a token is used; Kafka's default of sasl.login.refresh.window.factor.
_USED_SHARE = 0.8
#: Answers of endpoints are small.
_MOST_BYTES = 1 << 20


class Token(NamedTuple):
    """A bearer token. ``expires_s`` is seconds since 1970; None: its life is not known, it is used once."""

    value: Secret
    expires_s: float | None = None


#: What a caller's function returns: a token, or a token and when it expires, in seconds since 1970.
OAuthToken = str | tuple[str, float]


class Tokens:
    """The tokens of one client. Threads: any."""

    def __init__(
        self,
        login: Login,
        *,
        given: Callable[[], OAuthToken] | None = None,
        context: Callable[[], ssl.SSLContext] | None = None,
        encodes: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._login = login
        self._given = given
        self._context = context
        self._encodes = encodes  #: sasl.oauthbearer.header.urlencode
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: Token | None = None
        self._used_until = 0.0

    def again(self) -> Tokens:
        """Return the same without its state, for a forked child: the parent may hold the lock."""
        return Tokens(
            self._login, given=self._given, context=self._context, encodes=self._encodes, clock=self._clock
        )

    def get(self, timeout_s: float) -> Token:
        """Return a token that a broker accepts now; ``timeout_s`` limits a request for it.

        Raises:
            AuthenticationError: the endpoint refuses the client, or what it, the file or the function gives is no
                token.
            BrokerUnreachableError, BrokerTimeoutError: the endpoint cannot be reached or does not answer.
        """
        with self._lock:
            if self._kept is not None and self._clock() < self._used_until:
                return self._kept
            token = self._new(timeout_s)
            self._kept = None
            if token.expires_s is not None:
                now = self._clock()
                self._kept, self._used_until = token, now + (token.expires_s - now) * _USED_SHARE
            return token

    def forget(self) -> None:
        """Use the kept token no more: a broker has refused it."""
        with self._lock:
            self._kept = None

    def _new(self, timeout_s: float) -> Token:
        if self._given is not None:
            return self._from_function(self._given)
        endpoint = self._login.endpoint.written()
        if endpoint.startswith("file:"):
            path = unquote(urlsplit(endpoint).path)
            try:
                text = read_text(path)
            except ValueError as error:
                raise AuthenticationError(f"{_ENDPOINT}: {error}") from None
            # A file is read again for each login, whatever its token says.
            return Token(_checked(text.strip(), f"the file {path}"))
        return self._from_endpoint(endpoint, timeout_s)

    @staticmethod
    def _from_function(given: Callable[[], OAuthToken]) -> Token:
        try:
            found = given()
        except LogstoreError:
            raise
        except Exception as error:
            # What the function raises may hold a secret: its type is named, and it is the cause.
            raise AuthenticationError(f"oauth_token: the function raised {type(error).__name__}") from error
        text, expires_s = found if isinstance(found, tuple) else (found, None)
        token = _checked(text, "oauth_token: the function")
        return Token(token, _expiry(token) if expires_s is None else float(expires_s))

    def _from_endpoint(self, url: str, timeout_s: float) -> Token:
        where = f"{_ENDPOINT}: {shown_url(url)}"
        answer = _posted(url, self._request(), where, self._context, timeout_s)
        try:
            found = json.loads(answer)
            text, lives_s = found["access_token"], found.get("expires_in")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise AuthenticationError(f"{where} answers without an access_token in JSON") from None
        token = _checked(text, where)
        try:
            expires_s = self._clock() + float(lives_s) if lives_s is not None else _expiry(token)
        except (ValueError, TypeError):
            expires_s = _expiry(token)
        return Token(token, expires_s)

    def _request(self) -> tuple[bytes, dict[str, str]]:
        """Return body and headers of the request for a token: the client's id and secret are its user."""
        try:
            client, secret = self._login.client.reveal(), self._login.client_secret.reveal()
        except ValueError as error:
            raise AuthenticationError(f"sasl.oauthbearer.client.credentials: {error}") from None
        if self._encodes:
            client, secret = quote_plus(client), quote_plus(secret)
        body = {"grant_type": "client_credentials"}
        if self._login.scope:
            body["scope"] = self._login.scope
        user = base64.b64encode(f"{client}:{secret}".encode()).decode("ascii")
        headers = {
            "Authorization": f"Basic {user}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return urlencode(body).encode("ascii"), headers


def _posted(
    url: str,
    request: tuple[bytes, dict[str, str]],
    where: str,
    context: Callable[[], ssl.SSLContext] | None,
    timeout_s: float,
) -> bytes:
    # Imported when a token is asked for: an HTTP client is too much for everybody else.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **kwargs: Any) -> None:
            return None

    handlers: list[urllib.request.BaseHandler] = [NoRedirect()]
    if context is not None and url.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=context()))
    body, headers = request
    asked = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.build_opener(*handlers).open(asked, timeout=max(timeout_s, 0.001)) as answer:
            found: bytes = answer.read(_MOST_BYTES)
            return found
    except urllib.error.HTTPError as error:
        with error:
            said = _reason(error.read(_MOST_BYTES))
        problem = f"{where} answers {error.code} {error.reason}{said}"
        if error.code >= 500 or error.code == 429:
            raise BrokerUnreachableError(problem) from None
        raise AuthenticationError(f"{problem}; check the client's id and secret, and the scope") from None
    except TimeoutError:
        raise BrokerTimeoutError(f"{where} did not answer in time") from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            raise BrokerTimeoutError(f"{where} did not answer in time") from None
        if refused := getattr(cause, "verify_message", None):
            raise AuthenticationError(f"{where}: its certificate is not accepted: {refused}") from None
        raise BrokerUnreachableError(f"{where} cannot be reached: {cause}") from None


def _reason(body: bytes) -> str:
    """Return the error code of an endpoint's answer (RFC 6749, section 5.2); its other texts are not repeated."""
    try:
        found = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f" ({found})" if isinstance(found, str) and found.isascii() and len(found) < 80 else ""


def _checked(text: Any, where: str) -> Secret:
    """Return a token that fits into a message of OAUTHBEARER."""
    if not isinstance(text, str) or not text or not all("!" <= sign <= "~" for sign in text):
        raise AuthenticationError(f"{where} gives no token; expected text of printable ASCII without blanks")
    return Secret(text)


def _expiry(token: Secret) -> float | None:
    """Return when a JWT expires; None: it is another kind of token, or does not say so."""
    parts = token.reveal().split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
