"""``logstore serve`` in a process of its own: started, stopped, killed and started again at the same port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

END_S = 120


class ServedProcess:
    """A broker of a directory. ``descriptors`` is its limit on open files, by default that of this process."""

    def __init__(self, directory: Path, options: Sequence[str] = (), *, descriptors: int = 0) -> None:
        code = "from logstore.cli import main; raise SystemExit(main())"
        if descriptors:
            limit = f"({descriptors}, {descriptors})"
            code = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limit}); {code}"
        self._command = [sys.executable, "-c", code, "serve", str(directory), *options]
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self, listen: str = "") -> None:
        """Serve at an address; the first time by default at a free port, then at the same one."""
        command = [*self._command, "--listen", listen or self._listen]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.bootstrap = self._listen = self._first_line().split()[-1]
        host, _, port = self.bootstrap.rpartition(":")
        self.address = host, int(port)
        self.usage = psutil.Process(self._process.pid)  #: what the process takes

    def _first_line(self) -> str:
        assert self._process.stdout is not None
        line: str = self._process.stdout.readline()
        assert line.startswith("serving"), f"the broker has ended: {self._process.wait(END_S)}"
        return line

    def stop(self) -> int:
        """Tell it to end; return its exit status."""
        self._process.terminate()
        return self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def _end(self) -> int:
        try:
            return self._process.wait(END_S)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextmanager
def served_process(
    directory: Path, options: Sequence[str] = (), *, descriptors: int = 0
) -> Iterator[ServedProcess]:
    """Serve a directory, and end cleanly after the block."""
    served = ServedProcess(directory, options, descriptors=descriptors)
    try:
        yield served
    except BaseException:
        served.kill()
        raise
    assert served.stop() == 0
