"""A process that uses a store and is killed: what an adopted directory has to bear.

``python -m tests.interop.killed_store ROOT TOPIC GROUP COUNT FIRST [as-before]`` appends COUNT numbers from FIRST
on, reads what the group has not read, commits, prints what it has read and kills itself. With ``as-before`` each
unclean open raises the leader epoch, as the versions did that knew of no metadata of Kafka's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import logstore
from logstore.log.root import Root


def live(root: Path, topic: str, group: str, numbers: range, *, as_before: bool = False) -> list[bytes]:
    """Have such a process live; what it has read."""
    command = [sys.executable, "-m", "tests.interop.killed_store", str(root), topic, group]
    command += [str(len(numbers)), str(numbers.start), *(["as-before"] if as_before else [])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))}
    done = subprocess.run(command, capture_output=True, env=environ, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return done.stdout.split()


def main(root: str, topic: str, group: str, count: str, first: str, *more: str) -> None:
    if more:
        Root.is_kafkas = lambda self: False  # type: ignore[method-assign]
    store = logstore.open(root, environ={})
    for number in range(int(first), int(first) + int(count)):
        store[topic].append(b"%d" % number, ack="synced")
    with store.consumer(group=group, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics([topic])
        while records := consumer.poll(timeout_s=0):
            for record in records:
                print(bytes(record.value).decode())
        consumer.commit()
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
