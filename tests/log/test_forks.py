"""A fork at the worst moment: another thread of the parent holds a lock, and is not there in the child."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

#: The parent takes one lock and forks; in the child it is locked for ever, without an owner.
SCRIPT = """
    import os, signal, sys
    from logstore import Log
    from logstore.io._files import LIBC
    from logstore.errors import ForkedError
    from logstore.log.directory.lock import RootLock
    from logstore.accumulator.timer import TICKER

    root, which = sys.argv[1:]
    log = Log.open(root + "/parent/t-0", flush_ms=3_600_000)
    appender = log.appender(linger_ms=3_600_000)
    appender.append(b"gathered")
    locks = {
        "none": None,
        "the ticker's": TICKER._lock,
        "the roots'": RootLock._guard,
        "the appender's": appender._batcher._lock,
        "the log's": log._state.lock,
        "a deletion's": log._state.deleting,
    }
    if locks[which] is not None:
        locks[which].acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for use in (
            lambda: appender.append(b"x" * 70_000),
            lambda: appender.submit(b"x"),
            appender.flush,
            appender.close,
            log.flush,
            lambda: log.append([b"x"], ack="synced"),
            log.metrics,
            lambda: log.delete_before(1),
            log.maintenance.retain,
            lambda: log.read(0, timeout_s=60),
        ):
            try:
                use()
            except ForkedError:
                continue
            os._exit(3)
        log.close()
        with Log.open(root + "/child/t-0", flush_ms=1) as own, own.appender(linger_ms=1) as gathering:
            future = gathering.submit(b"by the child's own ticker")
            assert future.result(timeout=300) == 0
            assert own.wait_for(0)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if locks[which] is not None:
        locks[which].release()
    appender.close()
    log.close()
    with Log.open(root + "/parent/t-0") as log:
        assert [record.value for record in log] == [b"gathered"]
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    "lock", ["none", "the ticker's", "the roots'", "the appender's", "the log's", "a deletion's"]
)
def test_a_child_forked_while_a_lock_is_held_neither_hangs_nor_writes(tmp_path, lock):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(SCRIPT), str(tmp_path), lock],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == "0", done.stdout + done.stderr
