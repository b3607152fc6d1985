"""One small file of a log is an earlier copy of itself, as a restore of it alone leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstore import Log
from logstore.log import ProducerStamp
from logstore.log.formats import checkpoints, leader_epochs
from logstore.log.tools import verify
from tests.log.logs import crashed_copy

pytestmark = pytest.mark.row("S20", part="what is missing is told")

SETTINGS = {"segment_bytes": 300, "index_interval_bytes": 100}


def in_epochs(root: Path, count: int) -> list[bytes]:
    """A log that was killed again and again, in each epoch with three records; the epoch file after each."""
    files = []
    for number in range(count):
        before = root / f"{number}"
        with Log.open(before / "t-0", **SETTINGS) as log:
            assert log.replica.leader_epoch == number
            for n in range(3):
                log.append([b"v" * 80 + b"%d" % n], ack="synced")
            crashed_copy(log, root / f"{number + 1}")
        files.append((before / "t-0" / leader_epochs.LEADER_EPOCHS).read_bytes())
    return files


def test_an_earlier_epoch_file_gives_no_epoch_again(tmp_path):
    files = in_epochs(tmp_path, 4)
    whole = leader_epochs.Epochs.decode(files[3])
    path = tmp_path / "3" / "t-0"
    for earlier in files[:3]:
        (path / leader_epochs.LEADER_EPOCHS).write_bytes(earlier)
        with Log.open(path, **SETTINGS) as log:
            assert (log.replica.leader_epoch, log.replica.epochs.entries) == (3, whole.entries)


def test_after_a_kill_an_earlier_epoch_file_gives_no_epoch_again(tmp_path):
    files = in_epochs(tmp_path, 4)
    whole = leader_epochs.Epochs.decode(files[3])
    for number, earlier in enumerate(files[:3]):
        with Log.open(tmp_path / "3" / "t-0", **SETTINGS) as log:
            log.append([b"unclean"])
            path = crashed_copy(log, tmp_path / f"killed-{number}") / "t-0"
        (path / leader_epochs.LEADER_EPOCHS).write_bytes(earlier)
        with Log.open(path, **SETTINGS) as log:
            assert (log.replica.leader_epoch, log.replica.epochs.entries) == (4, whole.entries)


@pytest.mark.parametrize("killed", [False, True])
def test_an_earlier_published_end_hides_nothing_from_a_reader(tmp_path, killed):
    with Log.open(tmp_path / "log" / "t-0", **SETTINGS) as log:
        earlier = []
        for n in range(9):
            log.append([b"v" * 80 + b"%d" % n], ack="synced")
            earlier.append((Path(log.path) / checkpoints.PUBLISHED).read_bytes())
        log.delete_before(4)
        copy = crashed_copy(log, tmp_path / "copy")
    path = copy / "t-0" if killed else tmp_path / "log" / "t-0"
    for published in earlier:
        (path / checkpoints.PUBLISHED).write_bytes(published)
        with Log.open(path, read_only=True, **SETTINGS) as reader:
            assert [record.offset for record in reader.scan()] == [4, 5, 6, 7, 8]
            assert (reader.log_start_offset, reader.log_end_offset) == (4, 9)


def test_a_reader_that_did_not_believe_the_published_end_follows_the_next_writer(tmp_path):
    path = tmp_path / "t-0"
    with Log.open(path, **SETTINGS) as log:
        earlier = (path / checkpoints.PUBLISHED).read_bytes()
        log.append([b"a"], ack="synced")
    (path / checkpoints.PUBLISHED).write_bytes(earlier)
    with Log.open(path, read_only=True, **SETTINGS) as reader:
        assert [record.value for record in reader.scan()] == [b"a"]
        with Log.open(path, **SETTINGS) as log:
            log.append([b"b"])
            assert [record.value for record in reader.scan()] == [b"a", b"b"]


def test_written_records_that_are_gone_are_named_until_the_log_is_opened_for_writing(tmp_path):
    with Log.open(tmp_path / "log" / "t-0", **SETTINGS) as log:
        log.append([b"synced"], ack="synced")
        end = log.metrics().size
        log.append([b"written"])
        path = crashed_copy(log, tmp_path / "copy") / "t-0"
    (segment,) = path.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:end])
    (problem,) = verify.verify(verify.find(path))
    assert (problem.kind, problem.offset) == (verify.Kind.TAIL, 1)
    assert "was written up to 2" in problem.what
    with Log.open(path, **SETTINGS) as log:
        assert log.log_end_offset == 1
    assert list(verify.verify(verify.find(path))) == []


def test_an_earlier_recovery_file_brings_no_deleted_record_back(tmp_path):
    path = tmp_path / "t-0"
    with Log.open(path, segment_bytes=10_000) as log:
        for n in range(9):
            log.append([b"%d" % n])
        log.delete_before(2)
    earlier = (path / checkpoints.RECOVERY).read_bytes()
    with Log.open(path, segment_bytes=10_000) as log:
        log.append([b"9"])
        log.delete_before(5)
    (path / checkpoints.RECOVERY).write_bytes(earlier)
    with Log.open(path, segment_bytes=10_000) as log:
        assert [record.offset for record in log.scan()] == [5, 6, 7, 8, 9]


def test_a_transaction_that_began_in_what_was_deleted_hides_only_what_is_left(tmp_path):
    """As a kill leaves the files between the deletion and what tells readers of it."""
    with Log.open(tmp_path / "log" / "t-0", **SETTINGS) as log:
        for n in range(4):
            log.append([b"v" * 80], producer=ProducerStamp(1, 0, n, transactional=True))
        earlier = (Path(log.path) / checkpoints.PUBLISHED).read_bytes()
        log.delete_before(3)
        path = crashed_copy(log, tmp_path / "copy") / "t-0"
    (path / checkpoints.PUBLISHED).write_bytes(earlier)
    with Log.open(path, read_only=True, **SETTINGS) as reader:
        assert (reader.log_start_offset, reader.last_stable_offset, reader.log_end_offset) == (3, 3, 4)
        assert reader.scan(isolation="read_committed").count() == 0
        assert [record.offset for record in reader.scan()] == [3]


def test_a_roll_of_a_memory_tail_shows_readers_nothing_that_was_not_synced(tmp_path):
    settings = {**SETTINGS, "tail": "memory"}
    with Log.open(tmp_path / "t-0", **settings) as log:
        log.append([b"v" * 80])
        log.flush()
        for _ in range(9):
            log.append([b"v" * 80])
        log.maintenance.roll()
        with Log.open(tmp_path / "t-0", read_only=True, **settings) as reader:
            assert (reader.high_watermark, reader.log_end_offset) == (log.high_watermark, 10)
            assert reader.scan().count() == log.scan().count()
