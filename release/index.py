"""A private package index on this machine for as long as a `with` block lasts: pypiserver, on a free port.

It holds the files that are uploaded to it or copied into its folder, and sends no installer on to another index: a
package that is installed from it has come from it. Uploading needs the password.
"""

from __future__ import annotations

import contextlib
import http.client
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from release.commands import ReleaseError, run, tool

_USER = "release"


@dataclass(frozen=True)
class PrivateIndex:
    """Where the index is: ``url`` for pip and ``folder`` for what is laid in by hand."""

    url: str
    folder: Path
    upload_url: str
    password: str

    def upload(self, files: Sequence[Path], *, password: str | None = None) -> None:
        """By twine, as to any index.

        Raises:
            ReleaseError: the password is wrong, or a file of that name is there already.
        """
        run(
            *(tool("twine"), "upload", "--disable-progress-bar", "--repository-url", self.upload_url),
            *files,
            env={
                "TWINE_USERNAME": _USER,
                "TWINE_PASSWORD": password or self.password,
                "TWINE_NON_INTERACTIVE": "1",
            },
        )


@contextlib.contextmanager
def serve(work: Path) -> Iterator[PrivateIndex]:
    """Start pypiserver and wait until it answers; ended with the block."""
    folder, passwords = work / "index", work / "passwords"
    folder.mkdir(parents=True)
    password = secrets.token_urlsafe(12)
    # One line of Apache's htpasswd, by what passlib (a dependency of pypiserver's) makes of it.
    hashed = run(sys.executable, "-c", f"from passlib.hash import apr_md5_crypt as m; print(m.hash({password!r}))")
    passwords.write_text(f"{_USER}:{hashed}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(str(tool("pypi-server")), "run", "--interface", "127.0.0.1", "--port", str(port), "--disable-fallback"),
        *("--authenticate", "update", "--passwords", str(passwords), str(folder)),
    ]
    with (work / "index.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(server, port, work / "index.log")
            url = f"http://127.0.0.1:{port}"
            yield PrivateIndex(f"{url}/simple/", folder, f"{url}/", password)
        finally:
            server.terminate()
            server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/simple/")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise ReleaseError(f"pypiserver does not answer:\n{log.read_text()}")
