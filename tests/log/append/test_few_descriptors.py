"""Rolls and appends in more logs than there are descriptors for: each opens, syncs and closes without a lock."""

from __future__ import annotations

import errno

import pytest

from logstore import Log
from logstore.errors import TooManyFilesError
from logstore.testing import FaultyFiles
from tests.kit.inside import state_of
from tests.kit.logs import one_batch, values_of

LOGS, LIMIT = 24, 16
WAITED_FOR = ("open", "close", "fdatasync", "fsync_dir", "rename")
SEGMENT = 4_000


@pytest.fixture
def files():
    return FaultyFiles(descriptor_limit=LIMIT)


def waits(files: FaultyFiles) -> int:
    counts = files.counts()
    return sum(counts.get(name, 0) for name in WAITED_FOR)


class Seen:
    """Counts the calls of the steps that an append makes without the lock."""

    def __init__(self, files: FaultyFiles, log: Log) -> None:
        self._files = files
        self._state = state_of(log)
        self.calls = 0
        writer = log._writer
        for owner, name in (
            (writer, "make_ready"),
            (writer, "follow_up"),
            (self._state, "make_ready"),
            (self._state, "follow_up"),
        ):
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, step):
        def counted():
            assert not self._state.lock.locked()
            before = waits(self._files)
            try:
                step()
            finally:
                self.calls += waits(self._files) - before

        return counted


@pytest.fixture
def logs(tmp_path, files):
    opened = [
        Log.open(tmp_path / f"t-{n}", files=files, segment_bytes=SEGMENT, retention_ms=-1) for n in range(LOGS)
    ]
    yield opened
    for log in opened:
        log.close()


APPENDS = {
    "append": lambda log: log.append([b"v" * 400]),
    "expected": lambda log: log.append([b"v" * 400], expect=log.log_end_offset),
    "batch": lambda log: log.replica.append_batch(batch()),
    "turn": lambda log: log.replica.append_turn([batch()]),
}


def batch() -> bytes:
    return one_batch([b"v" * 400])


@pytest.mark.parametrize("call", APPENDS.values(), ids=APPENDS)
def test_an_append_opens_syncs_and_closes_nothing_under_the_lock(files, logs, call):
    for log in logs:
        call(log)
    seen = [Seen(files, log) for log in logs]
    before = waits(files)
    for _ in range(20):  # over two rolls of each
        for log in logs:
            call(log)
    made = waits(files) - before
    assert made > LOGS
    assert sum(each.calls for each in seen) == made
    assert all(log.metrics().counters["rolls"] >= 2 for log in logs)
    assert files.open_descriptors <= LIMIT


def test_without_a_free_descriptor_an_append_is_refused_before_the_lock_and_succeeds_later(files, logs):
    for log in logs:
        log.append([b"first"])
    files.fail("open", 1, errno.EMFILE, times=-1)
    refused = logs[0]
    with pytest.raises(TooManyFilesError):
        refused.append([b"second"])
    files.heal()
    assert refused.append([b"third"]).first_offset == 1
    assert values_of(refused) == [b"first", b"third"]
