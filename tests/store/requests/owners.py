"""Another process that has a store open."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from logstore.log.directory.files import Directory
from logstore.store.requests import channel
from logstore.store.requests.requests import accepted, message_of

OWNER = Path(__file__).with_name("request_owner.py")


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


def stop(process):
    """Stop a process, and return once it has: a signal takes a moment."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def post(root, request):
    """Send a request whose sender never reads anything; return its connection."""
    connection = channel.connect(Directory(root))
    channel.send(connection, message_of(request), lambda: None)
    return connection


def answer_to(connection):
    """The owner's answer to what `post` has sent, as the sender would get it."""
    with connection:
        assert channel.receive(connection, lambda: None) == accepted()
        return channel.result_of(channel.receive(connection, lambda: None))
