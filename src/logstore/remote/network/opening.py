"""The opening of a connection and the repetition of its login, as requests and answers without a socket.

An opening is a generator. It yields what it needs, and is sent what came of it: an `Asked` is a request, for which
it is sent the answer; an `Errand` may wait or compute for long, so it runs in a thread of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from logstore.errors import UnsupportedVersionError
from logstore.protocol import codes
from logstore.protocol.generated.messages import ApiVersionsRequest
from logstore.remote.credentials import Credentials


class Asked(NamedTuple):
    """A request of an opening."""

    request: Any
    version: int


class Errand(NamedTuple):
    """A function whose result the opening needs."""

    work: Callable[[], Any]


#: First and last version of each API key that a broker knows.
Versions = Mapping[int, tuple[int, int]]
OpeningOfVersions = Generator[Asked, Any, Versions]
OpeningOfLogin = Generator[Asked | Errand, Any, int]


def version_for(request: Any, versions: Versions, peer: object, most: int | None = None) -> int:
    """Return the highest version of a request that both sides know, but at most ``most``.

    Raises:
        UnsupportedVersionError: there is no such version.
    """
    least = request.MIN_VERSION
    highest = request.MAX_VERSION if most is None else min(most, request.MAX_VERSION)
    theirs = versions.get(request.API_KEY)
    name = request.__name__ if isinstance(request, type) else type(request).__name__
    if theirs is None:
        raise UnsupportedVersionError(f"{peer} does not know {name}")
    version = min(highest, theirs[1])
    if version < max(least, theirs[0]):
        raise UnsupportedVersionError(
            f"{peer} knows versions {theirs[0]} to {theirs[1]} of {name}, this client {least} to {highest}"
        )
    return int(version)


def ask_versions(peer: str) -> OpeningOfVersions:
    """Ask a broker which versions of messages it knows.

    Raises:
        BrokerError, UnsupportedVersionError: the broker refuses to say.
    """
    newest = ApiVersionsRequest.MAX_VERSION
    request = ApiVersionsRequest(client_software_name="logstore", client_software_version=own_version())
    answer = yield Asked(request, newest)
    if answer.error_code == codes.UNSUPPORTED_VERSION:
        # The answer has the versions of this one message, or nothing at all from the oldest brokers.
        known = {each.api_key: each.max_version for each in answer.api_keys}
        version = min(known.get(ApiVersionsRequest.API_KEY, 0), newest)
        answer = yield Asked(request if version >= 3 else ApiVersionsRequest(), version)
    if answer.error_code:
        raise codes.error_of(answer.error_code, f"versions of {peer}")
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def log_in(credentials: Credentials, versions: Versions, peer: str, timeout_s: float) -> OpeningOfLogin:
    """Log in, and return for how many milliseconds the broker accepts that; 0: without limit.

    Raises as `Credentials.login_steps`.
    """
    steps = credentials.login_steps(peer, timeout_s)
    answer = None
    while True:
        # A token may come from the network, and a proof of a password takes thousands of hashes.
        request, lifetime_ms = yield Errand(functools.partial(_next_step, steps, answer))
        if request is None:
            return int(lifetime_ms)
        answer = yield Asked(request, version_for(request, versions, peer))


def _next_step(steps: Generator[Any, Any, int], answer: Any) -> tuple[Any, int]:
    """Return the next request of a login, or None and what the login returns."""
    try:
        return steps.send(answer), 0
    except StopIteration as end:
        return None, end.value


@functools.cache
def own_version() -> str:
    """Return this client's version as brokers list it: letters, digits, dots and dashes."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("logstore")
    except PackageNotFoundError:
        return "unknown"
    return found.replace("+", "-")
