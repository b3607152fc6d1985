"""Aborted records stay hidden when the index that hides them is missing, empty, cut or of another moment.

Of itself such a file only says less: in Kafka's format no file means that nothing was aborted.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

import logstore
from logstore import Log
from logstore.errors import CorruptRecordError
from logstore.log import LogReader, Marker, ProducerStamp
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints, transaction_index
from logstore.log.formats.transaction_index import Sum
from logstore.log.recovery import recovery
from logstore.log.tools import verify
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.log.logs import crashed_copy, forget_sums

pytestmark = pytest.mark.row("T5", part="one process")

SETTINGS = {"segment_bytes": 600, "index_interval_bytes": 100}
DAY_MS = 86_400_000


def abort(log: Log, producer_id: int, value: bytes = b"aborted") -> None:
    log.append([value], producer=ProducerStamp(producer_id, 0, 0, transactional=True))
    log.append([b"plain"])
    log.replica.append_control(Marker.ABORT, producer_id=producer_id, producer_epoch=0)


def written(root: Path, **more) -> Path:
    """A log with aborted transactions in a sealed segment and in the active one."""
    with Log.open(root / "t-0", **SETTINGS, **more) as log:
        for producer_id in range(2):
            abort(log, producer_id)
        log.maintenance.roll()
        for producer_id in range(2, 4):
            abort(log, producer_id)
        assert log.maintenance.segment_count == 2
    return root / "t-0"


def committed(log) -> list[bytes]:
    return [record.value for record in log.scan(isolation="read_committed")]


def seen(path: Path, *, read_only: bool, **more) -> list[bytes]:
    with Log.open(path, read_only=read_only, **SETTINGS, **more) as log:
        assert log._aborted_between(0, log.log_end_offset) == log._aborted_between(0, log.log_end_offset)
        return committed(log)


def indexes(path: Path) -> list[Path]:
    return sorted(path.glob("*.txnindex"))


PLAIN = [b"plain"] * 4

#: What is done to a file, and what of it is left.
FAULTS = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut behind an entry": lambda path: path.write_bytes(path.read_bytes()[: transaction_index.ENTRY_BYTES]),
    "cut inside": lambda path: path.write_bytes(path.read_bytes()[:-1]),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_aborted_index_shows_no_aborted_record(tmp_path, fault, which, killed, read_only):
    if killed:
        with Log.open(tmp_path / "log" / "t-0", **SETTINGS) as log:
            abort(log, 0)
            abort(log, 1)
            log.maintenance.roll()
            abort(log, 2)
            abort(log, 3)
            log.flush()
            path = crashed_copy(log, tmp_path / "copy") / "t-0"
    else:
        path = written(tmp_path)
    FAULTS[fault](indexes(path)[which])
    named = [str(problem) for problem in verify.verify(verify.find(path))]
    assert any(indexes(path.parent / "t-0")[0].suffix in text and f"{3 * 2 * which:020d}" in text for text in named)
    assert seen(path, read_only=read_only) == PLAIN


def test_opening_for_writing_makes_a_lost_index_again(tmp_path):
    path = written(tmp_path)
    before = {index.name: index.read_bytes() for index in indexes(path)}
    for index in indexes(path):
        index.unlink()
    with Log.open(path, **SETTINGS):
        pass
    assert {index.name: index.read_bytes() for index in indexes(path)} == before
    assert list(verify.verify(verify.find(path))) == []


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_indexes_that_are_lost_together_with_their_sums_show_no_aborted_record(tmp_path, fault, read_only):
    """The recovery file knows that there were sums, so it is no directory of Kafka's."""
    path = written(tmp_path)
    FAULTS[fault](path / transaction_index.NOTE)
    assert any(transaction_index.NOTE in str(problem) for problem in verify.verify(verify.find(path)))
    for index in indexes(path):
        index.unlink()
    assert seen(path, read_only=read_only) == PLAIN


@pytest.mark.parametrize("read_only", [False, True])
def test_sums_of_another_moment_change_no_answer(tmp_path, read_only):
    """As a crash between an index and its sum leaves them, on either side."""
    path = tmp_path / "t-0"
    notes: list[bytes] = []
    with Log.open(path, **SETTINGS) as log:
        for producer_id in range(6):
            abort(log, producer_id)
            notes.append((path / transaction_index.NOTE).read_bytes())
            if producer_id % 2:
                log.maintenance.roll()
        copy = crashed_copy(log, tmp_path / "copy")
    assert len(set(notes)) == 6
    for number, note in enumerate(notes):
        for root in (tmp_path, copy):
            tried = tmp_path / f"tried-{root.name}-{number}" / "t-0"
            shutil.copytree(root / "t-0", tried)
            (tried / transaction_index.NOTE).write_bytes(note)
            assert seen(tried, read_only=read_only) == [b"plain"] * 6


def test_what_was_aborted_stays_aborted_when_its_producer_is_forgotten(tmp_path):
    """A log that knew no producer any more asked no index, and showed what was aborted."""
    clock = ManualClock()
    path = written(tmp_path, clock=clock)
    with Log.open(path, clock=clock, **SETTINGS) as log:
        clock.advance(2 * DAY_MS)
        log.append([b"late"])
        log.maintenance.tick()
        log._state.transactions.expire(clock.now_ms())
        assert log.metrics().producer_count == 0
    with Log.open(path, clock=clock, **SETTINGS) as log:
        assert log.metrics().producer_count == 0
        assert committed(log) == [*PLAIN, b"late"]
        # Its marker is cut off, so that it is open again.
        log.replica.truncate_to(8)
        assert log.last_stable_offset == 6
        log.replica.truncate_to(6)
        assert committed(log) == PLAIN[:2]
    with Log.open(path, clock=clock, **SETTINGS) as log:
        log.append([b"later"])
        copy = crashed_copy(log, tmp_path / "copy")
    assert seen(copy / "t-0", read_only=False, clock=clock) == [*PLAIN[:2], b"later"]


def test_a_directory_without_sums_is_believed_as_kafka_believes_it(tmp_path):
    """No file means that nothing was aborted: of Kafka's directories there is no more to be known."""
    path = written(tmp_path)
    forget_sums(path)
    assert list(verify.verify(verify.find(path))) == []
    assert seen(path, read_only=True) == PLAIN
    indexes(path)[0].unlink()
    assert seen(path, read_only=True) == [b"aborted", b"plain"] * 2 + PLAIN[:2]


def test_a_log_of_an_earlier_release_has_its_indexes_summed_by_the_first_open(tmp_path):
    path = written(tmp_path)
    before = (path / transaction_index.NOTE).read_bytes()
    forget_sums(path)
    with Log.open(path, **SETTINGS):
        pass
    assert transaction_index.decode_note(
        (path / transaction_index.NOTE).read_bytes()
    ) == transaction_index.decode_note(before)
    indexes(path)[0].unlink()
    assert seen(path, read_only=True) == PLAIN


def test_a_log_in_which_nothing_was_aborted_has_no_sums(tmp_path):
    with Log.open(tmp_path / "t-0", **SETTINGS) as log:
        log.append([b"committed"], producer=ProducerStamp(1, 0, 0, transactional=True))
        log.replica.append_control(Marker.COMMIT, producer_id=1, producer_epoch=0)
        log.maintenance.roll()
    assert not (tmp_path / "t-0" / transaction_index.NOTE).exists()
    assert not recovery.read_point(Directory(tmp_path / "t-0")).lists_aborted


def test_without_space_for_the_sums_nothing_is_shown_and_they_are_written_later(tmp_path):
    files = FaultyFiles()
    with Log.open(tmp_path / "t-0", files=files, **SETTINGS) as log:
        abort(log, 0)
        files.fail("pwrite", errno=errno.ENOSPC, path_contains=transaction_index.NOTE, times=-1)
        abort(log, 1)
        log.maintenance.roll()
        abort(log, 2)
        with Log.open(tmp_path / "t-0", read_only=True, **SETTINGS) as reader:
            assert committed(reader) == PLAIN[:3]
        files.heal()
        log.flush()
    note = transaction_index.decode_note((tmp_path / "t-0" / transaction_index.NOTE).read_bytes())
    assert {base: known.entries for base, known in note.items()} == {6: 1, 0: 2}


def test_a_reader_beside_the_writer_hides_what_is_aborted_since(tmp_path):
    path = tmp_path / "t-0"
    with Log.open(path, **SETTINGS) as log:
        log.append([b"plain"])
        with Log.open(path, read_only=True, **SETTINGS) as reader:
            assert committed(reader) == [b"plain"]
            for producer_id in range(5):
                abort(log, producer_id)
                assert committed(reader) == [b"plain"] * (producer_id + 2)
                if producer_id % 2:
                    log.maintenance.roll()
                    assert committed(reader) == [b"plain"] * (producer_id + 2)


def test_the_sums_are_whole_after_segments_with_aborted_transactions_were_deleted(tmp_path):
    """The head of the file is overwritten in place, and counts what stands behind it."""
    path = tmp_path / "t-0"
    with Log.open(path, **SETTINGS) as log:
        for producer_id in range(2):
            abort(log, producer_id)
            log.maintenance.roll()
        abort(log, 2)
        log.delete_before(4)
        abort(log, 3)
    assert transaction_index.decode_note((path / transaction_index.NOTE).read_bytes()).keys() == {3, 6}
    assert list(verify.verify(verify.find(path))) == []


def test_a_count_beside_a_writer_that_cuts_its_log_is_no_damage(tmp_path, monkeypatch):
    path = written(tmp_path)
    look, cuts = LogReader._aborted_between, [8]

    def looked(reader, *offsets):
        while cuts:
            log.replica.truncate_to(cuts.pop())
        return look(reader, *offsets)

    with Log.open(path, **SETTINGS) as log, Log.open(path, read_only=True, **SETTINGS) as reader:
        scan = reader.scan(0, 6, isolation="read_committed")
        monkeypatch.setattr(LogReader, "_aborted_between", looked)
        assert scan.count() == 2
    assert not cuts


def test_every_cut_of_the_sums_is_found():
    data = transaction_index.encode_note(7, {0: Sum(2, 5), 3: Sum(1, 1), 7: Sum(1, 3)})
    assert transaction_index.decode_note(data) == {7: Sum(1, 3), 0: Sum(2, 5), 3: Sum(1, 1)}
    assert [transaction_index.decode_note(data[:size]) for size in range(len(data))] == [None] * len(data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert transaction_index.decode_note(bytes(flipped)) is None


# --- snapshots ---------------------------------------------------------------------------------


def store_with_aborts(root: Path) -> logstore.Store:
    store = logstore.open(root, {"segment.bytes": 600, "logstore.housekeeping": "manual"})
    store.create_topic("t", 1)
    abort(store["t"][0], 1)
    store["t"][0].maintenance.roll()
    abort(store["t"][0], 2)
    return store


@pytest.mark.parametrize("read_only", [False, True])
def test_a_snapshot_hides_what_was_aborted_in_its_active_segment_too(tmp_path, read_only):
    with store_with_aborts(tmp_path / "store") as store:
        store.snapshot(tmp_path / "copy", verify=True)
        abort(store["t"][0], 3)
    for index in indexes(tmp_path / "copy" / "t-0")[:1]:
        index.unlink()
    with logstore.open(tmp_path / "copy", read_only=read_only) as copy:
        assert committed(copy["t"][0]) == PLAIN[:2]


def test_a_verified_snapshot_of_an_index_that_was_cut_meanwhile_is_refused(tmp_path):
    with store_with_aborts(tmp_path / "store") as store:
        indexes(tmp_path / "store" / "t-0")[0].write_bytes(b"")
        with pytest.raises(CorruptRecordError, match="lists 0 aborted transactions, and 1 were listed"):
            store.snapshot(tmp_path / "copy", verify=True)
        assert not (tmp_path / "copy").exists()


def test_the_flag_of_the_sums_is_one_of_its_own():
    point = checkpoints.RecoveryPoint(2, 0, 0, 0, 0, 0, -1)
    for flag in ("clean", "suspect", "lists_aborted"):
        changed = point._replace(**{flag: True})
        assert checkpoints.decode_slots(checkpoints.encode_slot(changed)) == changed
