"""Letters to the process that writes a store: plain files in the root.

A letter holds one request (`requests`) and goes by a *slip*, ``<digest>.<number>.<random>``: of a manifest
the query's digest and the number of its batch, as staged files are named::

    logstore.inbox.<slip>     a request that waits, with the time until which it is of any use
    logstore.taken.<slip>     the same file, once the owner of the store has it in hand
    logstore.answer.<slip>    what became of it
    logstore.inbox.bell       16 random bytes, written anew after each letter was put in

Each change is one rename, so exactly one of the two sides has a letter: whoever renames or removes it first.
The bell keeps the owner from listing the root, which may hold ten thousand directories, to learn that
nothing has come. Nothing is synced: after a power cut nobody waits for an answer any more.

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

#: Answers that nobody has fetched, and what a killed sender has half written, go after a day.
LITTER_MS: Final = 86_400_000


class Letter(NamedTuple):
    """What a sender asks for; after ``until_ms`` it waits no more."""

    request: Request[Any]
    until_ms: int

    def to_bytes(self) -> bytes:
        return json.dumps({"until_ms": self.until_ms, self.request.kind: self.request.payload()}).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> Letter:
        """The letter that `to_bytes` made.

        Raises:
            InvalidManifestError, InvalidTopicError: it is none, or asks for what only a later program does.
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
            raise InvalidManifestError(f"no letter: {error!r:.200}") from None


# -- the sender's side


def post(root: Directory, letter: Letter) -> str:
    """Put a letter in, and ring; its slip."""
    slip = f"{letter.request.stem}.{os.urandom(8).hex()}"
    root.replace(_INBOX + slip, letter.to_bytes(), durable=False)
    try:
        notifier = root.open(_BELL, create=True, writable=True)
        try:
            # Not a count: of two senders that ring at once, one would be lost.
            notifier.write(os.urandom(_BELL_BYTES), 0)
        finally:
            notifier.close()
    except BaseException:
        # Who is told that it was not sent must not find later that it was taken in.
        clear(root, slip)
        raise
    return slip


def is_there(root: Directory, slip: str) -> bool:
    """Whether a letter waits still, or an owner has it in hand."""
    return any(root.read(kind + slip) is not None for kind in (_INBOX, _TAKEN))


def withdraw(root: Directory, slip: str) -> bool:
    """Take a letter back that waits still; False if the owner has it."""
    return root.remove(_INBOX + slip)


def clear(root: Directory, slip: str) -> None:
    """Remove whatever there is of a letter: for a sender that asks nobody any more."""
    for kind in (_INBOX, _TAKEN, _ANSWER):
        with contextlib.suppress(StorageError):
            root.remove(kind + slip)


def fetch(root: Directory, slip: str) -> dict[str, Any] | None:
    """The answer to a letter, for `Request.result`; None if there is none yet.

    Raises:
        LogstoreError: the owner's, of the same class.
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
    """What the bell says now: something else after every letter; None if nobody has ever rung."""
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
    """The slips of the letters that wait; with ``taken`` also of those that an earlier owner had in hand."""
    kinds = (_INBOX, _TAKEN) if taken else (_INBOX,)
    return [slip for kind, slip in _slips(root) if kind in kinds]


def take(root: Directory, slip: str) -> Letter | None:
    """Take a letter in hand; None if its sender has taken it back.

    Raises:
        InvalidManifestError, InvalidTopicError: it is in hand, and not what it should be.
    """
    try:
        root.rename(_INBOX + slip, _TAKEN + slip)
    except StorageError as error:
        if errno_of(error) != errno.ENOENT:
            raise
    data = root.read(_TAKEN + slip)
    return None if data is None else Letter.of_bytes(data)


def answer(root: Directory, slip: str, found: dict[str, Any] | BaseException) -> None:
    """Tell the sender what became of a letter, which is out of hand then."""
    told = found if isinstance(found, dict) else _told(found)
    root.replace(_ANSWER + slip, json.dumps(told).encode(), durable=False)
    root.remove(_TAKEN + slip)


def drop(root: Directory, slip: str) -> None:
    """Let go of a letter in hand that nobody waits for."""
    root.remove(_TAKEN + slip)


def remove_litter(root: Directory, now_ms: int) -> int:
    """Remove what was left by senders and owners that are gone; how many files."""
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
    """An error as JSON, with all that it is made of if JSON has that."""
    told = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, LogstoreError):
        _, (_, args), attributes = error.__reduce__()
        whole = {"args": list(args), "attributes": attributes}
        with contextlib.suppress(TypeError, ValueError):
            if json.loads(json.dumps(whole)) == whole:
                return {**told, **whole}
    return told


def _error_of(told: dict[str, Any]) -> LogstoreError:
    """The owner's error, or the nearest to it that can be made of what was told."""
    kind = getattr(errors, told["error"], None)
    if isinstance(kind, type) and issubclass(kind, LogstoreError):
        if "attributes" in told:
            return errors.made_again(kind, tuple(told["args"]), told["attributes"])
        # An earlier owner tells the text alone, and some are made of more.
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
