"""No descriptor left, at any moment: nothing is lost, the log goes on, and the same call works again later."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap

import pytest

from logstore import Log
from logstore.errors import LogstoreError, NotSyncedError, StorageError, StorageFailedError, TooManyFilesError
from logstore.testing import FaultyFiles
from tests.crash.scripted import SETTINGS, ScriptedWorkload
from tests.kit.inside import failure_of

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="failing disk")]

OPENING = ("open", "fsync_dir", "listdir")


class Starved(ScriptedWorkload):
    """The scripted workload; each step that finds no descriptor is made again when there are some."""

    refused = 0

    def run(self) -> str:
        for step in self.steps():
            try:
                self.take(step)
            except StorageFailedError as error:
                return self.failed(error)
            self.synced = self.log.synced_end
        return "done"

    def take(self, step) -> None:
        try:
            step()
        except NotSyncedError:
            # In the log: it must not be appended again.
            self.give_back()
            self.sent.append(self.history.attempted)
            self.history.attempted = None
            self.log.flush()
        except TooManyFilesError as error:
            assert error.retriable
            self.give_back()
            self.history.attempted = None
            if step == self.close:
                assert self.is_closed()  # as a killed process leaves it: nothing holds its lock
            elif self.log is None or self.is_closed():
                self.open()
            else:
                assert failure_of(self.log) is None
                self.check_readable()
                step()

    def give_back(self) -> None:
        self.refused += 1
        self.files.heal()


@pytest.mark.parametrize("op", OPENING)
def test_every_call_that_needs_a_descriptor_finds_none_from_there_on(tmp_path, op):
    """Also those that the cache could give back are taken by others at once."""
    whole = FaultyFiles()
    assert Starved(tmp_path / "whole", whole).run() == "done"
    count = whole.counts()[op]
    refused = 0
    ended = []
    for nth in range(1, count + 1):
        files = FaultyFiles()
        files.fail(op, nth, errno.EMFILE, times=-1)
        workload = Starved(tmp_path / str(nth), files)
        try:
            ended.append(workload.run())
            workload.abandon()
            refused += workload.refused
            files.heal()
            workload.examine()
            if ended[-1] != "done":
                # A cut or an exchange of names that had begun, and no other: opening the log finishes it.
                assert workload.cutting is not None, "failed, and no cut had begun"
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{op} {nth}, {files.fired()}: {error!r}")
    assert refused > count // 4
    print(op, count, refused, {name: ended.count(name) for name in ended})


@pytest.mark.parametrize("op", OPENING)
def test_one_call_that_finds_none_is_made_again_with_a_descriptor_of_the_cache(tmp_path, op):
    whole = FaultyFiles()
    assert Starved(tmp_path / "whole", whole).run() == "done"
    for nth in range(1, whole.counts()[op] + 1):
        files = FaultyFiles()
        files.fail(op, nth, errno.ENFILE)
        workload = Starved(tmp_path / str(nth), files)
        assert workload.run() == "done"
        workload.examine()


def in_a_child(script: str, *arguments: str) -> dict:
    """What a process of its own reports, since this one could not take its limit back."""
    common = """
        import json, os, resource, sys
        import logstore
        from logstore.errors import NotSyncedError, TooManyFilesError
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
        others = []
        def take_all():
            try:
                while True:
                    others.append(os.dup(0))
            except OSError:
                pass
        def give_all_back():
            while others:
                os.close(others.pop())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(common) + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_log_rolls_and_flushes_in_a_process_that_has_no_descriptor_left(tmp_path):
    """Before, the directory could not be opened to be synced, and the first roll failed the log for good."""
    told = in_a_child(
        """
        log = logstore.Log.open(sys.argv[1], segment_bytes=2_000)
        log.append([b"0" * 100])
        for n in range(1, 200):
            take_all()
            log.append([b"%d" % n * 30], ack="synced" if n % 7 == 0 else "written")
        log.flush()
        segments = log.metrics().segment_count
        os._exit(print(json.dumps([segments, log.synced_end]), flush=True) or 0)
        """,
        str(tmp_path / "t-0"),
    )
    assert told[0] > 5
    assert told[1] == 200
    with Log.open(tmp_path / "t-0") as log:
        assert [record.offset for record in log.scan()] == list(range(200))


def test_a_store_that_is_closed_without_a_descriptor_leaves_no_lock_and_no_loss(tmp_path):
    told = in_a_child(
        """
        store = logstore.open(sys.argv[1], housekeeping="manual")
        topic = store.create_topic("t", partitions=3)
        for n in range(30):
            topic.append(b"%d" % n, partition=n % 3, ack="synced")
        take_all()
        try:
            store.close()
        except TooManyFilesError:
            pass
        give_all_back()
        with logstore.open(sys.argv[1]) as store:
            print(json.dumps(sorted(int(record.value) for record in store["t"].scan())))
        """,
        str(tmp_path / "store"),
    )
    assert told == list(range(30))


def test_a_log_that_cannot_be_closed_cleanly_is_closed_as_if_it_was_killed(tmp_path):
    files = FaultyFiles()
    log = Log.open(tmp_path / "t-0", files=files, **SETTINGS)
    log.append([b"a"])
    for op in OPENING:
        files.fail(op, 1, errno.EMFILE, times=-1)
    with pytest.raises(StorageError):
        log.close()
    log.close()
    files.heal()
    with Log.open(tmp_path / "t-0", files=files, **SETTINGS) as again:
        assert [record.value for record in again.scan()] == [b"a"]


def test_a_process_that_cannot_ask_for_the_lock_says_so(tmp_path):
    told = in_a_child(
        """
        from logstore.log.directory.files import Directory
        from logstore.log.directory.lock import holder_of
        root = Directory(sys.argv[1])
        with open(root.join(".lock"), "w"):
            pass
        take_all()
        try:
            holder_of(root)
        except TooManyFilesError as error:
            print(json.dumps(str(error)))
        """,
        str(tmp_path),
    )
    assert "ulimit -n" in told


CALLS = {
    "truncate_to": lambda log: log.replica.truncate_to(30),
    "truncate_to a sealed one": lambda log: log.replica.truncate_to(7),
    "delete_before": lambda log: log.delete_before(25),
    "compact": lambda log: log.maintenance.compact(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("op", OPENING)
def test_a_change_that_begins_without_a_descriptor_is_refused_before_anything_changes(tmp_path, op, call):
    """From its first call on that needs one: no other of the log is in the cache either."""
    files = FaultyFiles(descriptor_limit=1)
    settings = {**SETTINGS, "cleanup_policy": "compact", "segment_bytes": 300}
    with Log.open(tmp_path / "t-0", files=files, **settings) as log:
        for number in range(40):
            log.append([(b"%d" % (number % 5), b"%d" % number * 20)], ack="synced")
        log.maintenance.roll()
        before = [(record.offset, record.value) for record in log.scan()]
        files.fail(op, 1, errno.EMFILE, times=-1)
        try:
            CALLS[call](log)
        except TooManyFilesError:
            files.heal()
            assert failure_of(log) is None
            assert [(record.offset, record.value) for record in log.scan()] == before
            assert log.log_start_offset == 0
            CALLS[call](log)
        files.heal()
        log.append([(b"a", b"goes on")], ack="synced")
        after = [(record.offset, record.value) for record in log.scan()]
        assert len(after) < len(before)
    with Log.open(tmp_path / "t-0", files=files, **settings) as log:
        assert [(record.offset, record.value) for record in log.scan()] == after
