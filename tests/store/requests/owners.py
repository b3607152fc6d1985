"""Another process that has a store open."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

OWNER = Path(__file__).with_name("inbox_owner.py")


@contextlib.contextmanager
def owner(root, point="-"):
    """Another process that has the store open."""
    command = [sys.executable, str(OWNER), str(root), point]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(300)
        process.stdout.close()
