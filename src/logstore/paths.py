"""Local paths from paths that callers give: plain paths, ``~`` and ``file:`` URLs.

Every path from a caller, a command line or a settings file passes through this module before it is used. No I/O
except the lookup of users' home directories. Any thread may call.
"""

from __future__ import annotations

import os
import re

from logstore.errors import NotALogError

#: `pathlib` makes ``s3:/bucket`` of ``s3://bucket``, and ``s3:`` of ``s3://``.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?:/|$)")


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute local path; ``file:`` URLs are decoded, ``~`` and ``~user`` expanded.

    >>> local_path("file:///data/a%20shop"), local_path("/data/../shop/")
    ('/data/a shop', '/shop')

    Raises:
        NotALogError: the path is empty, another kind of URL, or of a user without a home directory.
    """
    given = os.fsdecode(os.fspath(path))
    if not given:
        raise NotALogError("an empty path names nothing; give a directory, '.' for the one that is current")
    if "\0" in given:
        raise NotALogError(f"a path has no null byte, found {given!r}")
    scheme = _SCHEME.match(given)
    if scheme is not None:
        return os.path.abspath(_of_url(given, scheme[1]))
    if given.startswith("~"):
        expanded = os.path.expanduser(given)
        if expanded.startswith("~"):
            raise NotALogError(f"{given!r} names a user without a home directory; for a name with ~ give './~…'")
        given = expanded
    return os.path.abspath(given)


def _of_url(given: str, scheme: str) -> str:
    if scheme.lower() != "file":
        raise NotALogError(
            f"{given} is a URL; a store is a directory of this machine: mount what it names and give that path (or "
            f"./{given}, if the directory has this very name)"
        )
    from urllib.parse import unquote_to_bytes  # few programs need it

    rest = given[len("file:") :]
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise NotALogError(f"{given!r} names a file of host {host!r}; a path is one of this machine")
        rest = slash + below
    found = os.fsdecode(unquote_to_bytes(os.fsencode(rest)))
    if not found or "\0" in found:
        raise NotALogError(f"{given!r} names no path; write file:///path/of/the/directory")
    return "/" + found.lstrip("/")
