"""A producer that was opened before a fork refuses everything in the child, and goes on in the parent."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

#: The parent takes one lock and forks; in the child it is locked for ever, without an owner.
SCRIPT = """
    import os, signal, sys
    import logstore
    from logstore.errors import ForkedError

    root, which = sys.argv[1:]
    store = logstore.open(root + "/data", environ={})
    store.create_topic("flights")
    producer = store.producer(linger_ms=3_600_000)
    future = producer.send("flights", b"gathered")
    batcher = producer._known("flights").batchers[0]
    locks = {"none": None, "the batcher's": batcher._lock, "the order's": batcher._writing}
    locks["the producer's"] = producer._lock
    if locks[which] is not None:
        locks[which].acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for use in (
            lambda: producer.send("flights", b"x"),
            lambda: producer.send("flights", b"x" * 70_000),
            producer.flush,
            lambda: producer.partitions_for("flights"),
            future.result,
            future.exception,
        ):
            try:
                use()
            except ForkedError:
                continue
            os._exit(3)
        producer.close()
        store.close()
        with logstore.open(root + "/child", environ={}) as own:
            own.create_topic("flights")
            with own.producer(linger_ms=1) as another:
                assert another.send("flights", b"by the child's own ticker").result(timeout=300).offset == 0
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if locks[which] is not None:
        locks[which].release()
    assert status == 0, status
    producer.send("flights", b"afterwards")
    producer.close()
    assert future.result(timeout=0).offset == 0
    assert [r.value for r in store["flights"][0].scan()] == [b"gathered", b"afterwards"]
    store.close()
    print("ok")
"""


@pytest.mark.parametrize("which", ["none", "the batcher's", "the order's", "the producer's"])
def test_a_child_meets_an_error_and_never_a_lock(tmp_path, which):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path), which]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


IMPORTING = """
    import importlib.abc, os, signal, sys, threading
    from logstore.store.requests import commit_server

    class Slow(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "logstore.store.requests.requests":
                begun.set()
                threading.Event().wait(0.3)
            return None

    begun = threading.Event()
    sys.meta_path.insert(0, Slow())
    thread = threading.Thread(target=commit_server._handlers)
    thread.start()
    assert begun.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        commit_server._handlers()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    thread.join()
    print("ok")
"""


def test_a_fork_beside_an_import_of_the_housekeeping_leaves_a_child_that_can_import():
    """Python keeps the lock of a module that another thread imports, for ever, in the child of a fork."""
    command = [sys.executable, "-c", textwrap.dedent(IMPORTING)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
