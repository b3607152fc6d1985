"""Letters to the process that writes a store: plain files in the root.

A letter holds one request (`requests`) and is named by a *slip*, ``<digest>.<number>.<random>``: for a manifest
the query's digest and the number of its batch, as staged files are named::

    logstore.inbox.<slip>     a request that waits, with the time until which its sender waits
    logstore.taken.<slip>     the same file, once the owner of the store has accepted it
    logstore.answer.<slip>    the result
    logstore.inbox.bell       16 random bytes, written again after each letter was put in

Each change is one rename, so exactly one of the two sides has a letter: the first to rename or remove it.
The bell saves the owner from listing the root, which may hold ten thousand directories, to learn that
no letter has come. Nothing is synced: after a power cut no sender waits for an answer any more.

This module knows files, and neither stores nor logs. The sender's part is `asking`, the owner's
`commit_server`. Any thread may call.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from logstore import errors
from logstore.errors import InvalidManifestError, LogstoreError, StorageError
from logstore.io._files import errno_of
from logstore.log.directory.files import Directory
from logstore.store.requests.requests import KINDS, Request

_INBOX: Final = "logstore.inbox."
_TAKEN: Final = "logstore.taken."
_ANSWER: Final = "logstore.answer."
_BELL: Final = "logstore.inbox.bell"
_BELL_BYTES = 16

_SLIP = re.compile(r"[0-9a-f]{32}\.\d{1,19}\.[0-9a-f]{16}", re.ASCII)

#: Answers that no sender has fetched, and half-written files of a killed sender, are deleted after a day.
LITTER_MS: Final = 86_400_000


class Letter(NamedTuple):
    """A request of a sender, which waits for it until ``until_ms``."""

    request: Request[Any]
    until_ms: int

    def to_bytes(self) -> bytes:
        return json.dumps({"until_ms": self.until_ms, self.request.kind: self.request.payload()}).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> Letter:
        """Return the letter that `to_bytes` made.

        Raises:
            InvalidManifestError, InvalidTopicError: it is no letter, or a request that only a later program knows.
        """
        try:
            found: Any = json.loads(data)
            until_ms = int(found.pop("until_ms"))
            ((kind, given),) = found.items()
            if kind not in KINDS:
                raise InvalidManifestError(
                    f"a request of the kind {kind!r:.40}, which this package does not know; use the same version "
                    "of logstore everywhere"
                )
            return cls(KINDS[kind].of_payload(given), until_ms)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, LogstoreError):
                raise
            raise InvalidManifestError(f"the request cannot be parsed: {error!r:.200}") from None


# -- the sender's side


def post(root: Directory, letter: Letter) -> str:
    """Put a letter in, and change the bell; return its slip."""
    slip = f"{letter.request.stem}.{os.urandom(8).hex()}"
    root.replace(_INBOX + slip, letter.to_bytes(), durable=False)
    try:
        notifier = root.open(_BELL, create=True, writable=True)
        try:
            # Not a count: of two senders at once, one would be lost.
            notifier.write(os.urandom(_BELL_BYTES), 0)
        finally:
            notifier.close()
    except BaseException:
        # A letter whose sender was told that it was not sent must not be carried out later.
        clear(root, slip)
        raise
    return slip


def is_there(root: Directory, slip: str) -> bool:
    """Return whether a letter still waits, or an owner has accepted it."""
    return any(root.read(kind + slip) is not None for kind in (_INBOX, _TAKEN))


def withdraw(root: Directory, slip: str) -> bool:
    """Withdraw a letter that still waits; False if the owner has accepted it."""
    return root.remove(_INBOX + slip)


def clear(root: Directory, slip: str) -> None:
    """Remove every file of a letter: for a sender that asks no owner any more."""
    for kind in (_INBOX, _TAKEN, _ANSWER):
        with contextlib.suppress(StorageError):
            root.remove(kind + slip)


def fetch(root: Directory, slip: str) -> dict[str, Any] | None:
    """Return the answer to a letter, for `Request.result`; None if there is none yet.

    Raises:
        LogstoreError: the owner's error, of the same class.
    """
    data = root.read(_ANSWER + slip)
    if data is None:
        return None
    try:
        return _answer_of(data)
    finally:
        clear(root, slip)


# -- the owner's side


def notifier(root: Directory) -> bytes | None:
    """Return the bytes of the bell, which change with every letter; None if no letter was ever sent."""
    try:
        file = root.open(_BELL)
    except StorageError as error:
        if errno_of(error) == errno.ENOENT:
            return None
        raise
    try:
        return file.read(0, _BELL_BYTES)
    finally:
        file.close()


def waiting(root: Directory, *, taken: bool) -> list[str]:
    """Return the slips of the letters that wait; with ``taken`` also of those that an earlier owner accepted."""
    kinds = (_INBOX, _TAKEN) if taken else (_INBOX,)
    return [slip for kind, slip in _slips(root) if kind in kinds]


def take(root: Directory, slip: str) -> Letter | None:
    """Accept a letter; None if its sender has withdrawn it.

    Raises:
        InvalidManifestError, InvalidTopicError: it was accepted, and is not what it should be.
    """
    try:
        root.rename(_INBOX + slip, _TAKEN + slip)
    except StorageError as error:
        if errno_of(error) != errno.ENOENT:
            raise
    data = root.read(_TAKEN + slip)
    return None if data is None else Letter.of_bytes(data)


def answer(root: Directory, slip: str, found: dict[str, Any] | BaseException) -> None:
    """Write the answer to a letter for its sender, and remove the letter."""
    told = found if isinstance(found, dict) else _told(found)
    root.replace(_ANSWER + slip, json.dumps(told).encode(), durable=False)
    root.remove(_TAKEN + slip)


def drop(root: Directory, slip: str) -> None:
    """Remove an accepted letter that no sender waits for."""
    root.remove(_TAKEN + slip)


def remove_litter(root: Directory, now_ms: int) -> int:
    """Remove the files that earlier senders and owners have left; return their number."""
    count = 0
    for name in root.names():
        if name.startswith((_INBOX, _TAKEN, _ANSWER)) and name != _BELL:
            with contextlib.suppress(StorageError):
                file = root.open(name)
                modified_ms = file.modified_ms()
                file.close()
                if now_ms - modified_ms > LITTER_MS:
                    count += root.remove(name)
    return count


def _slips(root: Directory) -> Iterator[tuple[str, str]]:
    for name in root.names():
        for kind in (_INBOX, _TAKEN):
            if name.startswith(kind) and _SLIP.fullmatch(name[len(kind) :]):
                yield kind, name[len(kind) :]


def _answer_of(data: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(data)
    if "error" in told:
        raise _error_of(told)
    return told


def _told(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON, with its arguments and attributes if JSON can hold them."""
    told = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, LogstoreError):
        _, (_, args), attributes = error.__reduce__()
        whole = {"args": list(args), "attributes": attributes}
        with contextlib.suppress(TypeError, ValueError):
            if json.loads(json.dumps(whole)) == whole:
                return {**told, **whole}
    return told


def _error_of(told: dict[str, Any]) -> LogstoreError:
    """Return the owner's error, or the nearest to it that can be made of its JSON."""
    kind = getattr(errors, told["error"], None)
    if isinstance(kind, type) and issubclass(kind, LogstoreError):
        if "attributes" in told:
            return errors.made_again(kind, tuple(told["args"]), told["attributes"])
        # An earlier owner sends the text alone, and some classes need more than that.
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            return kind(told["text"])
    return LogstoreError(f"{told['error']}: {told['text']}")


__all__ = [
    "Letter",
    "answer",
    "clear",
    "drop",
    "fetch",
    "is_there",
    "notifier",
    "post",
    "remove_litter",
    "take",
    "waiting",
    "withdraw",
]
