"""Secrets among settings, and references of values to files and environment variables.

A `Secret` keeps a password, a key or a token out of all output: it is shown as ``[hidden]``, and only `reveal`
returns its text. A value may refer to where the text stands: ``{file:/run/secrets/password}`` is the content of a
file without the end of its last line, ``{env:KAFKA_PASSWORD}`` an environment variable. A reference is followed
when the value is used, so a pickled setting holds the reference, and the next connection reads a changed file. What
it finds is taken as it is: a reference in it is not followed. Only settings of security (``ssl.*``, ``sasl.*``) may
hold references. Any thread may use this module.
"""

from __future__ import annotations

import os
import re
from typing import Any

HIDDEN = "[hidden]"

#: Files with secrets are small: a reference to a device would never end.
MOST_BYTES = 1 << 20

_REFERENCE = re.compile(r"\{(file|env):([^{}]*)\}")


class Secret:
    """A text that no output shows. It may hold references, which `reveal` follows.

    >>> password = Secret("open sesame")
    >>> print(f"{password!r} {password}")
    [hidden] [hidden]
    >>> password.reveal()
    'open sesame'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, with its references followed; raises as `follow`."""
        return follow(self._text)

    def written(self) -> str:
        """Return the text as it was given, with its references as they stand."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._text,)


def follow(text: str) -> str:
    """Return a value with its references replaced by what they refer to.

    Raises:
        ValueError: a file cannot be read, or a variable is not set. The message names it, and shows no content.

    >>> os.environ["USER_OF_KAFKA"] = "alice"
    >>> follow("user-{env:USER_OF_KAFKA}")
    'user-alice'
    """
    return _REFERENCE.sub(_found, text)


def _found(reference: re.Match[str]) -> str:
    kind, name = reference.groups()
    if not name:
        raise ValueError(f"expected {{file:PATH}} or {{env:NAME}}, found {{{kind}:}} without a name")
    if kind == "file":
        return read_text(name).removesuffix("\n").removesuffix("\r")
    found = os.environ.get(name)
    if found is None:
        raise ValueError(f"environment variable {name} is not set")
    return found


def read_text(path: str) -> str:
    """Return the content of a small text file; raises as `follow`."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        # The error of the codec holds the content of the file.
        raise ValueError(f"file {path} is not text in UTF-8") from None


def read_bytes(path: str) -> bytes:
    """Return the content of a small file; raises as `follow`."""
    try:
        with open(path, "rb") as file:
            found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"file {path} cannot be read: {error.strerror or error}") from error
    if len(found) > MOST_BYTES:
        raise ValueError(f"file {path} has more than {MOST_BYTES} bytes")
    return found
