"""Channel to the process that writes a store: a Unix stream socket in its root, ``logstore.socket``.

The socket belongs to the process that holds the lock of the root. A message is its length in four bytes, in
network order, and as many bytes of JSON. Each request has a connection of its own. It waits in the owner's backlog,
then::

    owner    {"accepted": 1, "kinds": ["manifest", "commit", "snapshot"]}
    sender   {"kind": "commit", "request": {"group": …}}
    owner    {"result": {…}}    or    {"error": "NotALogError", "text": …, "args": […], "attributes": {…}}

The number is the version of these messages. A sender whose time is over closes the connection; without its request
there is nothing to carry out. So exactly one message decides whether an owner has a request.

`requests` converts requests, `asking` sends them, `commit_server` answers. This module knows bytes and sockets, and
neither stores nor logs. A simulated disk has no sockets. Any thread may call.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final

from logstore import errors
from logstore.errors import DiskFullError, InvalidManifestError, LogstoreError
from logstore.log.directory import files
from logstore.log.directory.files import Directory

SOCKET: Final = files.OURS + "socket"

#: A manifest of 100,000 staged files has about 20 MB.
MOST_BYTES: Final = 64 << 20
_LENGTH_BYTES: Final = 4
_PIECE_BYTES: Final = 1 << 18
#: Linux: sun_path without its final zero byte.
_MOST_PATH_BYTES: Final = 107

#: How long a call of a socket waits before the next `Check`.
_LOOK_S: Final = 0.05

#: Raises, or closes the connection, if there is nothing more to wait for.
Check = Callable[[], object]


def listen(root: Directory) -> socket.socket:
    """Return a socket that listens in the root, whose lock this process holds; an earlier owner's is replaced.

    Raises:
        DiskFullError: there is no space for its name.
        OSError: the file system has no sockets, or refuses this one.
    """
    if root.files.namespace is not None:
        raise OSError(errno.EOPNOTSUPP, "a simulated disk has no sockets")
    root.remove(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(root) as address:
            listener.bind(address)
        _share(root)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError("the socket of the store finds no space", path=root.join(SOCKET)) from error
        raise
    return listener


def connect(root: Directory) -> socket.socket:
    """Return a connection to the owner of the store.

    Raises:
        FileNotFoundError: there is no socket in the root.
        OSError: no process listens there, its backlog is full, or this one may not connect.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_LOOK_S)
    try:
        with _address(root) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def accept(listener: socket.socket) -> socket.socket:
    """Return the next connection of a sender.

    Raises:
        BlockingIOError: there is none, and the listener does not wait.
        OSError: there is none any more, or no descriptor left for it.
    """
    connection, _ = listener.accept()
    connection.settimeout(_LOOK_S)
    return connection


def is_abandoned(connection: socket.socket) -> bool:
    """Return whether the other end was closed."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def send(connection: socket.socket, message: dict[str, Any], check: Check) -> None:
    """Send a message.

    Raises:
        InvalidManifestError: it is too long. Nothing was sent.
        OSError: the other end was closed.
    """
    data = json.dumps(message).encode()
    if len(data) > MOST_BYTES:
        raise InvalidManifestError(f"the request has {len(data)} bytes, more than {MOST_BYTES}; make it smaller")
    rest = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    while rest:
        check()
        with contextlib.suppress(TimeoutError):
            rest = rest[connection.send(rest, socket.MSG_NOSIGNAL) :]


def receive(connection: socket.socket, check: Check) -> dict[str, Any]:
    """Receive a message.

    Raises:
        InvalidManifestError: it is not one.
        EOFError, OSError: the other end was closed before all of it was there.
    """
    size = int.from_bytes(_exactly(connection, _LENGTH_BYTES, check), "big")
    if size > MOST_BYTES:
        raise InvalidManifestError(f"the message has {size} bytes, more than {MOST_BYTES}")
    try:
        found = json.loads(_exactly(connection, size, check))
    except (ValueError, RecursionError) as error:
        raise InvalidManifestError(f"the message cannot be parsed: {error!r:.200}") from None
    if not isinstance(found, dict):
        raise InvalidManifestError(f"the message cannot be parsed: {found!r:.200}")
    return found


def _exactly(connection: socket.socket, size: int, check: Check) -> bytes:
    # A length is a claim: memory is taken for the bytes that have come.
    found = bytearray()
    while len(found) < size:
        check()
        with contextlib.suppress(TimeoutError):
            piece = connection.recv(min(size - len(found), _PIECE_BYTES))
            if not piece:
                raise EOFError("the connection was closed")
            found += piece
    return bytes(found)


def message_of_error(error: BaseException) -> dict[str, Any]:
    """Return an error as a message, with its arguments and attributes if JSON can hold them."""
    told = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, LogstoreError):
        _, (_, args), attributes = error.__reduce__()
        whole = {"args": list(args), "attributes": attributes}
        with contextlib.suppress(TypeError, ValueError):
            if json.loads(json.dumps(whole)) == whole:
                return {**told, **whole}
    return told


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return the result in an owner's answer, for `StoreRequest.result`.

    Raises:
        InvalidManifestError: there is none.
        LogstoreError: the owner's error: of the same class, or the nearest that can be made of its text.
    """
    if "error" not in message:
        if not isinstance(message.get("result"), dict):
            raise InvalidManifestError(f"the answer has no result: {message!r:.200}")
        result: dict[str, Any] = message["result"]
        return result
    found = LogstoreError(f"{message['error']}: {message.get('text', '')}")
    kind = getattr(errors, str(message["error"]), None)
    if isinstance(kind, type) and issubclass(kind, LogstoreError):
        if "attributes" in message:
            raise errors.made_again(kind, tuple(message["args"]), message["attributes"])
        # Some classes need more than a text.
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            found = kind(message.get("text", ""))
    raise found


@contextlib.contextmanager
def _address(root: Directory) -> Iterator[str]:
    """Give the address of the socket: a long path is shortened through a descriptor of the root."""
    path = root.join(SOCKET)
    if len(os.fsencode(path)) <= _MOST_PATH_BYTES:
        yield path
        return
    descriptor = os.open(root.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _share(root: Directory) -> None:
    """Let those connect that may make files in the root, whatever this process's umask is."""
    path, above = root.join(SOCKET), os.stat(root.path)
    with contextlib.suppress(PermissionError):
        os.chown(path, -1 if os.geteuid() else above.st_uid, above.st_gid)
    os.chmod(path, stat.S_IMODE(above.st_mode) & 0o666)
